#!/usr/bin/env bash
# Measures whole training steps of nets of images: the trainer beside PyTorch in the ways given, in
# turns, and two ranks that share out the work by data beside two ranks with hybrid parallelism.
# Prints two tables in Markdown.
#   bench/image_nets_bench.sh BUILD_DIR [NET...]
# ROUNDS (3), STEPS (3), THREADS (all), PYTHON (python3, with torch), RANKS_NETS (alexnet vgg16) and
# RANKS_BATCH (128 images) may be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
shift || true
nets=("$@")
[[ ${#nets[@]} -gt 0 ]] || nets=(resnet50 alexnet)
rounds=${ROUNDS:-3}
steps=${STEPS:-3}
threads=${THREADS:-$(nproc)}
python=${PYTHON:-python3}
read -ra ranks_nets <<<"${RANKS_NETS-alexnet vgg16}"

# Prints the value of a key in one line of JSON.
field() { sed -nE "s/.*\"$1\": ?\"?([^,}\"]*).*/\1/p" <<<"$2"; }
median() { sort -g | awk '{v[NR] = $1} END {if (NR) print v[int((NR + 1) / 2)]}'; }
calc() { awk "BEGIN {printf \"$1\", ($2)}"; }

# Prints the seconds of a step: trainer NET PRECISION OPTION...
trainer() {
  local net=$1 precision=$2
  shift 2
  field step_s "$("$build/trireme" bench train "configs/bench-$net.toml" --steps "$steps" --json \
    --set precision.compute="$precision" "$@" 2>/dev/null)"
}
pytorch() {  # NET OPTION...
  local net=$1
  shift
  field step_s "$(OMP_NUM_THREADS=$threads "$python" bench/pytorch_image_net.py \
    "configs/bench-$net.toml" --threads "$threads" --steps "$steps" "$@" 2>/dev/null)"
}
# Prints the options that PyTorch has for a precision of the trainer.
ways_of() {
  if [[ $1 == fp32 ]]; then
    echo "--precision fp32;--precision fp32 --compile"
  else
    echo "--precision autocast;--precision bf16;--precision autocast --compile"
  fi
}

echo "Nets of images, $(date -u +%Y-%m-%d)," \
  "$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -1), $threads threads," \
  "commit $(git rev-parse --short HEAD 2>/dev/null || echo none)"
echo
echo "| net | precision | trainer, s a step | PyTorch's best | its way | PyTorch / trainer |"
echo "|---|---|---|---|---|---|"
for net in "${nets[@]}"; do
  for precision in fp32 bf16; do
    IFS=';' read -ra ways <<<"$(ways_of $precision)"
    declare -A theirs=()
    ours=''
    for ((round = 0; round < rounds; ++round)); do
      ours+="$(trainer "$net" $precision --set run.threads_per_rank="$threads")"$'\n'
      for way in "${ways[@]}"; do
        # shellcheck disable=SC2086
        theirs[$way]+="$(pytorch "$net" $way || true)"$'\n'
      done
    done
    own=$(printf '%s' "$ours" | median)
    best='' best_way=none
    for way in "${ways[@]}"; do
      seconds=$(printf '%s' "${theirs[$way]}" | sed '/^$/d' | median)
      [[ -n $seconds ]] || continue
      if [[ -z $best || $(calc '%d' "$seconds < $best") == 1 ]]; then
        best=$seconds
        best_way=${way//--/}
      fi
    done
    echo "| $net | $precision | $(calc '%.3f' "$own") | $(calc '%.3f' "${best:-0}") | $best_way" \
      "| $(calc '%.2f' "${best:-0} / $own") |"
  done
done

images=${RANKS_BATCH:-128}
echo
echo "| net, $images images, 2 ranks | precision | by data, s a step | hybrid | data / hybrid |"
echo "|---|---|---|---|---|"
for net in "${ranks_nets[@]}"; do
  for precision in fp32 bf16; do
    data='' hybrid=''
    two=(--ranks 2 --set run.threads_per_rank=1 --set batch.global_sequences="$images")
    for ((round = 0; round < rounds; ++round)); do
      data+="$(trainer "$net" $precision "${two[@]}" --set parallel.dp=2 \
        --set batch.micro_sequences=16)"$'\n'
      hybrid+="$(trainer "$net" $precision "${two[@]}" --set parallel.tp=2 \
        --set batch.micro_sequences=32)"$'\n'
    done
    by_data=$(printf '%s' "$data" | median)
    mixed=$(printf '%s' "$hybrid" | median)
    echo "| $net | $precision | $(calc '%.2f' "$by_data") | $(calc '%.2f' "$mixed")" \
      "| $(calc '%.2f' "$by_data / $mixed") |"
  done
done
