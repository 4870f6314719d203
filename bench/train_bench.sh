#!/usr/bin/env bash
# Measures whole training steps of the trainer, of the bare kernels and, if a python3 with torch is
# found, of PyTorch at its best precision: in turns, several rounds, medians, one table in Markdown.
#   bench/train_bench.sh BUILD_DIR [SHAPE...]
# ROUNDS (3), SECONDS_PER_RUN (4), BENCH_PREFIX (a command put before every measurement) and
# PYTORCH_WAYS (options of bench/pytorch_gpt.py, parted by ;) may be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
shift || true
shapes=("$@")
[[ ${#shapes[@]} -gt 0 ]] ||
  shapes=(gpt2-124m-4x64 gpt2-124m-1x1024 6x384-8x256 nano-char-12x64 microgpt)
rounds=${ROUNDS:-3}
seconds=${SECONDS_PER_RUN:-4}
threads=$(nproc)
read -ra prefix <<<"${BENCH_PREFIX:-}"

# Prints the value of a key in one line of JSON.
field() { sed -nE "s/.*\"$1\": ?\"?([^,}\"]*).*/\1/p" <<<"$2"; }
median() { sort -g | awk '{v[NR] = $1} END {if (NR) print v[int((NR + 1) / 2)]}'; }
# Runs awk's printf with numbers from the shell: calc '%.2f' 'a / b'
calc() { awk "BEGIN {printf \"$1\", ($2)}"; }
mib() { calc '%.0f' "${1:-0} / 1048576"; }

measure() { "${prefix[@]}" "$@" 2>/dev/null; }
trainer() { measure "$build/trireme" bench train "configs/bench-$1.toml" --json; }
bare() { measure "$build/bench/bare_sequence" "configs/bench-$1.toml" --seconds "$seconds"; }

# PyTorch gets an allocator that keeps its pages, huge pages, and threads that stay on their cores.
tuned=(OMP_NUM_THREADS="$threads" OMP_PROC_BIND=true THP_MEM_ALLOC_ENABLE=1)
for allocator in /usr/lib/*/libjemalloc.so.2 /usr/lib/*/libtcmalloc*.so.4; do
  if [[ -e $allocator ]]; then
    tuned+=(LD_PRELOAD="$allocator")
    break
  fi
done
tuned+=(MALLOC_TRIM_THRESHOLD_=-1 MALLOC_MMAP_MAX_=0 MALLOC_TOP_PAD_=268435456
        GLIBC_TUNABLES=glibc.malloc.hugetlb=1)
pytorch() {  # SHAPE OPTION...
  local shape=$1
  shift
  measure env "${tuned[@]}" python3 bench/pytorch_gpt.py "configs/bench-$shape.toml" \
    --threads "$threads" --seconds "$seconds" "$@"
}
has_torch=no
python3 -c 'import torch, tomllib' 2>/dev/null && has_torch=yes

all_ways=$(printf '%s;' --precision\ {fp32,autocast,bf16}{,\ --compile})
IFS=';' read -ra ways <<<"${PYTORCH_WAYS:-$all_ways}"

# Prints the options of PyTorch's fastest way. Compiling may fail if there is no compiler.
best_pytorch() {
  local shape=$1 best=0 options='' way rate line
  for way in "${ways[@]}"; do
    # shellcheck disable=SC2086
    line=$(pytorch "$shape" $way || true)
    rate=$(field tokens_per_s "$line")
    [[ -n $rate ]] || continue
    echo "  pytorch $way: $(calc '%.0f' "$rate") tokens/s" >&2
    if [[ $(calc '%d' "$rate > $best") == 1 ]]; then
      best=$rate
      options=$way
    fi
  done
  echo "$options"
}

echo "Training steps, $(date -u +%Y-%m-%d)," \
  "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -1)," \
  "$threads threads, commit $(git rev-parse --short HEAD 2>/dev/null || echo none)," \
  "$([[ $has_torch == yes ]] && python3 -c 'import torch; print("torch", torch.__version__)')"
echo "Command: bench/train_bench.sh $build ${shapes[*]} (ROUNDS=$rounds, SECONDS_PER_RUN=$seconds)"
echo
echo "| shape | trainer, tokens/s | MFU | bare kernels | trainer / bare |" \
  "PyTorch's best | its way |" \
  "trainer / PyTorch | resident MiB, trainer | PyTorch | activations MiB, trainer | PyTorch |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
for shape in "${shapes[@]}"; do
  way=''
  [[ $has_torch == yes ]] && way=$(best_pytorch "$shape")
  trainer_rates='' bare_rates='' pytorch_rates='' mfus=''
  for ((round = 0; round < rounds; ++round)); do
    line=$(trainer "$shape")
    trainer_rates+="$(field tokens_per_s "$line")"$'\n'
    mfus+="$(field mfu "$line")"$'\n'
    rss=$(field rss_peak_bytes "$line")
    bare_rates+="$(field tokens_per_s "$(bare "$shape")")"$'\n'
    if [[ -n $way ]]; then
      # shellcheck disable=SC2086
      torch_line=$(pytorch "$shape" $way || true)
      pytorch_rates+="$(field tokens_per_s "$torch_line")"$'\n'
    fi
  done
  ours=$(printf '%s' "$trainer_rates" | median)
  kernels=$(printf '%s' "$bare_rates" | median)
  mfu=$(printf '%s' "$mfus" | median)
  activations=$("$build/trireme" plan "configs/bench-$shape.toml" --json 2>/dev/null |
    sed -nE 's/.*"activations": ?([0-9]+).*/\1/p' | head -1)
  row="| $shape | $(calc '%.0f' "$ours") | $(calc '%.0f%%' "100 * $mfu")"
  row+=" | $(calc '%.0f' "$kernels")"
  row+=" | $(calc '%.3f' "$ours / $kernels")"
  if [[ -n $way ]]; then
    theirs=$(printf '%s' "$pytorch_rates" | median)
    # Measures what autograd keeps without compilation, because compilation hides it.
    # shellcheck disable=SC2086
    kept=$(field activation_bytes "$(pytorch "$shape" ${way/--compile/} --seconds 0)")
    row+=" | $(calc '%.0f' "$theirs") | ${way//--precision /} | $(calc '%.2f' "$ours / $theirs")"
    row+=" | $(mib "$rss") | $(mib "$(field rss_bytes "$torch_line")")"
    row+=" (libraries $(mib "$(field library_bytes "$torch_line")"))"
    row+=" | $(mib "$activations") | $(mib "$kept") |"
  else
    row+=" | | | | $(mib "$rss") | | $(mib "$activations") | |"
  fi
  echo "$row"
done
