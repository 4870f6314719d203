#!/usr/bin/env bash
# Predicted step times beside the measured ones, for the bench shapes on one rank and in layouts of
# two, as a table in Markdown. A run predicts itself from what it measures when it starts. With
# HARDWARE, a file that `trireme calibrate` has written, a second run of one step predicts from it.
# Every layout runs TURNS times, one turn after the other. The table shows the run whose error is
# the middle one, and the least and greatest error.
#   bench/predictions_bench.sh BUILD_DIR [SHAPE...]
# HARDWARE (none), LAYOUTS (all), TURNS (3) and RUNS (a folder to keep) may be set in the
# environment.
set -euo pipefail
cd "$(dirname "$0")/.."
trireme=${1:-build/release}/trireme
shift || true
shapes=("$@")
[[ ${#shapes[@]} -gt 0 ]] ||
  shapes=(6x384-8x256 gpt2-124m-4x64 gpt2-124m-1x1024 nano-char-12x64 microgpt)
read -ra layouts <<<"${LAYOUTS:-one dp2 tp2 pp2 cp2 zero3}"
turns=${TURNS:-3}
runs=${RUNS:-}
[[ -z $runs ]] || mkdir -p "$runs"
if [[ -z $runs ]]; then
  runs=$(mktemp -d)
  trap 'rm -rf "$runs"' EXIT
fi

# The keys of a layout. Two data-parallel ranks need two sequences, and a pipeline gets two or four
# micro-batches.
layout_keys() {  # LAYOUT SHAPE
  local micro=1 sequences=
  [[ $2 == *-1x1024 || $2 == microgpt ]] && sequences="batch.global_sequences"
  case $1 in
    one) ;;
    tp2 | cp2) echo "parallel.${1%2}=2" ;;
    dp2 | zero3)
      case $2 in
        6x384-8x256) micro=4 ;;
        gpt2-124m-4x64) micro=2 ;;
        nano-char-12x64) micro=6 ;;
      esac
      echo "parallel.dp=2 batch.micro_sequences=$micro ${sequences:+$sequences=2}"
      [[ $1 == dp2 ]] || echo "parallel.zero=3"
      ;;
    pp2)
      case $2 in
        6x384-8x256) micro=2 ;;
        nano-char-12x64) micro=3 ;;
      esac
      echo "parallel.pp=2 batch.micro_sequences=$micro ${sequences:+$sequences=2}"
      ;;
  esac
}
steps_of() {
  case $1 in
    gpt2-124m-1x1024) echo 4 ;;
    6x384-8x256) echo 5 ;;
    gpt2-124m-4x64) echo 6 ;;
    nano-char-*) echo 150 ;;
    microgpt) echo 3000 ;;
  esac
}

# Prints a number of the top level of a file that a run has written.
field() { sed -nE "s/^  \"$1\": ([^,]*),?\$/\1/p" "$2" | head -1; }
milliseconds() { awk "BEGIN {printf \"%.4g ms\", 1e3 * $1}"; }
error() { awk "BEGIN {printf \"%+.1f\", 100 * ($1 / $2 - 1)}"; }

# Trains SHAPE in LAYOUT for so many steps into a folder; the settings behind them are added.
run() {  # SHAPE LAYOUT STEPS FOLDER KEY=VALUE...
  local sets=() key
  for key in $(layout_keys "$2" "$1") "${@:5}"; do sets+=(--set "$key"); done
  "$trireme" train "configs/bench-$1.toml" "${sets[@]}" --set "run.steps=$3" --out "$4" \
    >"$runs/log" 2>&1 || echo "$1 $2: $(tail -1 "$runs/log")" >&2
}

# Prints one line of numbers of a run: error, step measured and predicted, the step and its error
# from a file ("-" without one), and the share of the cores that others took.
row_of() {  # SHAPE LAYOUT FOLDER
  local measured predicted others of_file=- error_of_file=-
  run "$1" "$2" "$(steps_of "$1")" "$3"
  [[ -e $3/summary.json ]] || return 0
  measured=$(field step_s "$3/summary.json")
  predicted=$(field step_s_predicted "$3/summary.json")
  others=$(field cores_taken_by_others "$3/summary.json")
  if [[ -n ${HARDWARE:-} ]]; then
    run "$1" "$2" 1 "$3.file" "run.hardware=$HARDWARE"
    of_file=$(field step_s "$3.file/plan.json")
    error_of_file=$(error "$of_file" "$measured")
  fi
  echo "$(error "$predicted" "$measured") $measured $predicted $of_file $error_of_file $others"
}

echo "Predicted and measured steps, $(date -u +%Y-%m-%d)," \
  "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -1), $(nproc) cores," \
  "commit $(git rev-parse --short HEAD 2>/dev/null || echo none), $turns turns"
echo
for ((turn = 1; turn <= turns; ++turn)); do
  for shape in "${shapes[@]}"; do
    for layout in "${layouts[@]}"; do
      # A model of one layer has no two stages.
      [[ $shape != microgpt || $layout != pp2 ]] || continue
      row_of "$shape" "$layout" "$runs/$shape.$layout.$turn" >>"$runs/$shape.$layout.rows"
    done
  done
done

echo "| shape | layout | measured | predicted | error | of all turns | with a file | error |" \
  "taken by others |"
echo "|---|---|---|---|---|---|---|---|---|"
for shape in "${shapes[@]}"; do
  for layout in "${layouts[@]}"; do
    rows=$runs/$shape.$layout.rows
    [[ -s $rows ]] || continue
    sort -g "$rows" -o "$rows"
    read -r middle measured predicted of_file error_of_file others \
      <<<"$(sed -n "$((($(wc -l <"$rows") + 1) / 2))p" "$rows")"
    [[ $of_file == - ]] || of_file=$(milliseconds "$of_file") error_of_file+=" %"
    echo "| $shape | $layout | $(milliseconds "$measured") | $(milliseconds "$predicted") |" \
      "$middle % | $(head -1 "$rows" | cut -d" " -f1) to $(tail -1 "$rows" | cut -d" " -f1) % |" \
      "$of_file | $error_of_file | $(awk "BEGIN {printf \"%.0f %%\", 100 * $others}") |"
  done
done
