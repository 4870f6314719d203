#!/usr/bin/env bash
# Training with ranks as processes leaves the numbers of ranks as threads:
# train.sh TRIREME MPIRUN CONFIGS [K]: compares every K-th layout.
set -euo pipefail
source "$(dirname "$0")/mpirun.sh"
configs=$3
every=${4:-1}
. "$(dirname "$0")/job_folder.sh"

numbers() { grep '"event":"train"' "$1/metrics.jsonl" | grep -oE '"(loss|grad_norm)":[^,]*'; }

common=(--set run.reproducible=layout --set run.steps=10
        --set run.threads_per_rank=1)
failed=0
check() {  # ranks, model, settings: threads and processes have the same numbers
  local count=$1 model=$configs/tiny-$2.toml threads=$folder/threads processes=$folder/processes
  [[ -f $model ]] || model=$configs/$2.toml
  shift 2
  rm -rf "$threads" "$processes"
  if ! "$PROGRAM" train "$model" "${common[@]}" --out "$threads" "$@" 2>"$folder/log" ||
    ! ranks "$count" train "$model" "${common[@]}" --out "$processes" "$@" 2>"$folder/log"; then
    echo "FAILED: $count ranks $*"; tail -n 5 "$folder/log"; failed=1; return
  fi
  if cmp -s <(numbers "$threads") <(numbers "$processes"); then
    echo "same numbers: $count ranks $*"
  else
    echo "OTHER NUMBERS: $count ranks $*"; failed=1
  fi
}
# The cases cover dp, pp, tp, cp, schedules, ZeRO stages, recomputations, and a tied table at places
# with degrees of their own.
set_all() { local key; for key in "$@"; do printf -- '--set\n%s\n' "$key"; done; }
layout=0
while read -r -u 3 count settings; do  # mpirun reads standard input
  ((layout++ % every == 0)) || continue
  mapfile -t options < <(set_all $settings)
  check "$count" gpt2 "${options[@]}"
done 3<<'LAYOUTS'
2 parallel.dp=2
2 parallel.dp=2 parallel.zero=3 memory.recompute=selective
2 parallel.pp=2 parallel.schedule=interleaved
2 parallel.pp=2 parallel.schedule=naive memory.recompute=full
4 parallel.pp=2 parallel.dp=2 parallel.schedule=zb_v parallel.zero=2
4 parallel.pp=2 parallel.dp=2 parallel.schedule=dualpipe parallel.zero=1
4 parallel.pp=2 parallel.tp=2 parallel.schedule=zb_h1 memory.recompute=selective
4 parallel.pp=2 parallel.cp=2 parallel.schedule=dualpipev
4 parallel.dp=2 parallel.tp=2 parallel.zero=1 parallel.sequence=true
4 parallel.dp=2 parallel.cp=2 parallel.zero=2 memory.recompute=full
4 parallel.tp=2 parallel.cp=2 precision.compute="bf16"
4 parallel.dp=4 parallel.zero=3 parallel.hsdp_shard=2
4 parallel.pp=2 parallel.dp=2 parallel.schedule=gpipe parallel.zero=3
4 parallel.pp=4 parallel.schedule=zb_h2
LAYOUTS
by_place=(--set parallel.pp=2 --set parallel.dp=2 --set parallel.stage_dp=1,2
          --set parallel.order=tp,cp,dp,pp)
check 3 gpt2 "${by_place[@]}"
check 4 gpt2 "${by_place[@]}" --set parallel.tp=2 --set parallel.stage_tp=2,1 --set parallel.zero=1
check 2 moe --set parallel.dp=2 --set parallel.ep=2
check 4 moe --set parallel.dp=4 --set parallel.ep=2 --set parallel.zero=3 \
  --set model.capacity_factor=1.0
check 2 digits --set data.source=synthetic --set data.train= --set parallel.dp=2 \
  --set model.batch_norm=step
# A world whose size does not fit the configuration is refused.
if ranks 3 train "$configs/tiny-gpt2.toml" "${common[@]}" --out "$folder/none" 2>"$folder/log"; then
  echo "3 ranks were not refused"; failed=1
elif ! grep -qE -- '(mpirun -n|--ranks) 3' "$folder/log"; then
  echo "the refusal does not say who has started 3 ranks"; cat "$folder/log"; failed=1
fi
exit $failed
