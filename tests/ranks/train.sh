#!/usr/bin/env bash
# Training with ranks as processes leaves the numbers of ranks as threads: train.sh TRIREME MPIRUN CONFIGS
set -euo pipefail
source "$(dirname "$0")/mpirun.sh"
configs=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

numbers() { grep '"event":"train"' "$1/metrics.jsonl" | grep -oE '"(loss|grad_norm)":[^,]*'; }

common=("$configs/tiny-gpt2.toml" --set run.reproducible=layout --set run.steps=10
        --set run.threads_per_rank=1)
# Without tensor parallelism every layout has the same bits, so one run of threads serves them all.
"$PROGRAM" train "${common[@]}" --out "$folder/one" 2>"$folder/log"
numbers "$folder/one" >"$folder/expected"
failed=0
check() {  # ranks, settings
  local count=$1 out=$folder/run
  shift
  rm -rf "$out"
  if ! ranks "$count" train "${common[@]}" --out "$out" "$@" 2>"$folder/log"; then
    echo "FAILED: $count ranks $*"; tail -n 5 "$folder/log"; failed=1; return
  fi
  if numbers "$out" | cmp -s - "$folder/expected"; then
    echo "same numbers: $count ranks $*"
  else
    echo "OTHER NUMBERS: $count ranks $*"; failed=1
  fi
}
check 2
check 2 --set parallel.zero=3
check 2 --set parallel.pp=2 --set parallel.schedule=interleaved
check 4 --set parallel.pp=2 --set parallel.schedule=zb_v --set parallel.zero=2
# A world that the configuration does not fit is refused.
if ranks 3 train "${common[@]}" --out "$folder/none" 2>"$folder/log"; then
  echo "3 ranks were not refused"; failed=1
fi
exit $failed
