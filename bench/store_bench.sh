#!/usr/bin/env bash
# The figures of a store in folders beside their bounds, as a table in Markdown:
#   bench/store_bench.sh BUILD_DIR
# Each round measures every step of the store and the plain copies that it is compared with, one
# after the other, so that both see the same machine. Plain copies sync what the store syncs: every
# file, and its folder. What is read is first put out of the page cache. A figure is the median of
# the ratios of the rounds. The exit code is 1 if a figure misses its bound.
# In the environment:
#   WORK          folder for everything (a new one below the current folder); it is removed
#   STORE_DIRS    six folders, best on six disks, separated by commas (six folders of WORK)
#   MIB           length of the large file (4096); a multiple of 64
#   SMALL_FILES   number of files of 1,000 bytes (4000)
#   ROUNDS        (5)
set -euo pipefail
trireme=$(realpath "${1:-build/release}/trireme")
mib=${MIB:-4096}
small_files=${SMALL_FILES:-4000}
rounds=${ROUNDS:-5}
if ((mib < 64 || mib % 64 != 0)); then
  echo "MIB=$mib: must be a multiple of 64" >&2
  exit 2
fi
work=$(mktemp -d "${WORK:-$PWD}/store-bench.XXXXXX")
trap 'rm -rf "$work" "${made[@]}"' EXIT
made=()
cd "$work"
export TRIREME_STORES=$work/stores

folders=()
if [[ -n ${STORE_DIRS:-} ]]; then
  IFS=, read -r -a given <<<"$STORE_DIRS"
  for folder in "${given[@]}"; do folders+=("$(realpath "$folder")/store-bench-$$"); done
else
  for ((i = 0; i < 6; ++i)); do folders+=("$work/d$i"); done
fi
if ((${#folders[@]} != 6)); then
  echo "STORE_DIRS: six folders are needed, and ${#folders[@]} were given" >&2
  exit 2
fi
for folder in "${folders[@]}"; do
  mkdir -p "$folder/plain"
  made+=("$folder")
done
stores=()
for folder in "${folders[@]}"; do stores+=("$folder/store"); done
commas() { local IFS=,; echo "$*"; }
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
calc() { awk "BEGIN {printf \"%.4g\", ($1)}"; }
field() { sed -nE "s/.*\"$1\": ?([0-9.]+).*/\1/p" <<<"$2" | head -n 1; }
# seconds COMMAND...: how long it takes.
seconds() {
  local begin end
  begin=$(date +%s.%N)
  "$@" >/dev/null
  end=$(date +%s.%N)
  calc "$end - $begin"
}
# Puts files out of the page cache.
evict() {
  local file
  find "$@" -type f | while read -r file; do
    dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none
  done
}

# ---- The plain copies. K + M = 6 files of a quarter of the file each are 1.5 bytes for a byte.
plain_put() {
  local i
  for ((i = 0; i < 6; ++i)); do
    dd if=source of="${folders[i]}/plain/x" bs=1M count=$((mib / 4)) skip=$((i % 4 * mib / 4)) \
      conv=fsync status=none &
  done
  wait
  for ((i = 0; i < 6; ++i)); do sync "${folders[i]}/plain"; done
}
# Four of the six are the file: they are read side by side into one file.
plain_get() {
  local i
  for ((i = 0; i < 4; ++i)); do
    dd if="${folders[i]}/plain/x" of=out bs=1M seek=$((i * mib / 4)) conv=notrunc status=none &
  done
  wait
  sync out
  sync .
}
# plain_repair FILES: so many files of 8 MiB, one after the other.
plain_repair() {
  local i
  for ((i = 0; i < $1; ++i)); do
    dd if=source of="${folders[5]}/plain/chunk$i" bs=8M count=1 conv=fsync status=none
    sync "${folders[5]}/plain"
  done
}

store_put() { "$trireme" store put source store://bench/x; }
store_get() { "$trireme" store get store://bench/x out; }
store_put_small() { "$trireme" store put small store://bench/small; }

# ---- Preparation
dd if=/dev/urandom of=source bs=1M count="$mib" status=none
mkdir small
for ((i = 0; i < small_files; ++i)); do head -c 1000 source >"small/$i"; done
"$trireme" store create bench --code 4+2 --dirs "$(commas "${stores[@]}")" >/dev/null

# note FIGURE VALUE: keeps the value of a round.
note() { echo "$2" >>"$work/$1.values"; }

for ((round = 0; round < rounds; ++round)); do
  rm -f out
  plain_put_s=$(seconds plain_put)
  put_s=$(seconds store_put)
  note put "$(calc "$plain_put_s / $put_s")"
  note put_mib_s "$(calc "$mib / $put_s")"

  evict "${folders[@]}"
  plain_get_s=$(seconds plain_get)
  cmp -s source out
  rm -f out
  get_s=$(seconds store_get)
  cmp -s source out
  note get "$(calc "$plain_get_s / $get_s")"
  note get_mib_s "$(calc "$mib / $get_s")"

  # Two of six folders are away, which is all that the code bears.
  evict "${folders[@]}"
  rm -f out
  for i in 0 1; do mv "${stores[i]}" "${stores[i]}-away"; done
  degraded_s=$(seconds store_get)
  for i in 0 1; do mv "${stores[i]}-away" "${stores[i]}"; done
  cmp -s source out
  note degraded "$(calc "$get_s / $degraded_s")"

  rm -rf "${stores[5]:?}"
  mkdir "${stores[5]}"
  begin=$(date +%s.%N)
  repaired=$("$trireme" store repair bench --json)
  repair_s=$(calc "$(date +%s.%N) - $begin")
  bytes=$(field repaired_bytes "$repaired")
  num_chunks=$(calc "int(($bytes + 8388607) / 8388608)")
  plain_repair_s=$(seconds plain_repair "$num_chunks")
  note repair "$(calc "$plain_repair_s / $repair_s")"
  note repair_mib_s "$(calc "$bytes / 1048576 / $repair_s")"
  rm -f "${folders[5]}"/plain/chunk*

  small_s=$(seconds store_put_small)
  note small "$(calc "$small_files / $small_s")"
  "$trireme" store scrub bench >/dev/null
done

# ---- Bytes on disks for a byte of files; this does not depend on the machine.
for ((i = 0; i < 11; ++i)); do wide[i]=$work/w$i; done
"$trireme" store create wide --code 8+3 --dirs "$(commas "${wide[@]}")" >/dev/null
head -c 64M source >part
"$trireme" store put part store://wide/part >/dev/null
status=$("$trireme" store status wide --json)
note overhead "$(calc "$(field stored_bytes "$status") / $((64 << 20))")"

missed=0
# row FIGURE TEXT RELATION BOUND
row() {
  local value verdict
  value=$(median <"$work/$1.values")
  if [[ $3 == '>=' ]]; then verdict=$(calc "$value >= $4"); else verdict=$(calc "$value <= $4"); fi
  ((verdict == 1)) || missed=1
  printf '| %s | %s | %s | %s %s | %s |\n' "$2" "$value" \
    "$(sort -g "$work/$1.values" | awk 'NR == 1 {least = $1} END {print least " to " $1}')" \
    "$3" "$4" "$([[ $verdict == 1 ]] && echo yes || echo NO)"
}
echo "$mib MiB, $small_files small files, $rounds rounds, code 4+2 in six folders on" \
  "$(stat -c %d "${folders[@]}" | sort -u | wc -l) file systems; put" \
  "$(median <put_mib_s.values) MiB/s, get $(median <get_mib_s.values) MiB/s, repair" \
  "$(median <repair_mib_s.values) MiB/s"
echo
echo "| figure | median | all | bound | met |"
echo "|---|---|---|---|---|"
row put "put, as a share of plain copies" '>=' 0.8
row get "get, as a share of plain copies" '>=' 0.8
row small "small files put in a second" '>=' 1000
row degraded "get without two folders, as a share of a healthy get" '>=' 0.5
row repair "repair, as a share of plain writes of its chunks" '>=' 0.8
row overhead "bytes on disks for a byte, code 8+3" '<=' 1.375
exit "$missed"
