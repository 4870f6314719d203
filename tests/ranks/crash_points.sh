#!/usr/bin/env bash
# A rank dies at named points of a run (watch/crash_point.h), and no number changes. The last one
# dies after the last step. Without ROUNDS it is some points, with it as often all that there are.
# Usage: crash_points.sh TRIREME CONFIGS [ROUNDS] [SEED]
set -uo pipefail
trireme=$1
configs=$2
rounds=${3:-1}
points=()
steps=1200
if (($# < 3)); then
  points=(--points memory-committed,disk-indexed,order-taken,restored,leave)
  steps=400
fi
seed=${4:-1}
. "$(dirname "$0")/job_folder.sh"

common=("$configs/tiny-gpt2.toml" --ranks 4 --set run.threads_per_rank=1
        --set run.reproducible=layout --set model.layers=1 --set batch.global_sequences=4
        --set checkpoint.every=5 --set checkpoint.keep=2 --set checkpoint.memory_every=1
        --set run.comm_timeout_s=2)
for ((round = 0; round < rounds; round++)); do
  "$trireme" chaos "${common[@]}" --steps $steps --seed $((seed + round)) --mtbf 0.1 \
    --faults point "${points[@]}" --out "$folder/storm$round" --json \
    >"$folder/json" 2>"$folder/log" ||
    fail "round $round: exit code $?"
  grep -q '"good": true' "$folder/json" || fail "round $round: the points were not survived"
  ((failed == 0)) || { cat "$folder/json" "$folder/log"; break; }
  grep -m1 -E '^  "survived": [0-9]' "$folder/json"
done

# A rank dies after the last step, before the first one has written summary.json. The next epoch has
# nothing left to train, and writes it from the metrics.
"$trireme" chaos "$configs/tiny-gpt2.toml" --ranks 2 --set run.threads_per_rank=1 \
  --set model.layers=1 --set checkpoint.every=20 --steps 40 --mtbf 0.1 \
  --faults point --points leave --out "$folder/late" --json >"$folder/json" 2>"$folder/log"
grep -q '"good": true' "$folder/json" || fail "after the last step: $(<"$folder/json")"
key() { sed -nE "s/^  \"$2\": *([^,]*),?\$/\1/p" "$folder/late/$1/summary.json"; }
[[ $(key storm from_metrics) == true ]] || fail "no late summary: $(<"$folder/late/storm.log")"
for name in end steps final_loss; do
  [[ $(key storm $name) == "$(key oracle $name)" ]] ||
    fail "$name of a late summary: $(key storm $name), not $(key oracle $name)"
done

# A rank dies at the end of a run that run.stop_after ends. The run counts as stopped, and not as
# failed.
"$trireme" chaos "${common[@]}" --duration 1 --mtbf 0.1 --faults point --points reported \
  --set run.steps=100000 \
  --out "$folder/stopped" --json >"$folder/json" 2>"$folder/log"
grep -q '"good": true' "$folder/json" || fail "after run.stop_after: $(<"$folder/json")"

refused() {
  "$trireme" chaos "${common[@]}" "${@:2}" --out "$folder/refused" 2>"$folder/log"
  [[ $? == 2 ]] && grep -q -- "$1" "$folder/log" || fail "$1: $(<"$folder/log")"
}
refused 'is no point; there are compile' --faults point --points lunch
refused 'name leave or reported' --faults point --points leave,reported
refused 'add it: --faults point' --points load
refused 'set checkpoint.memory_every' --faults point --points before-update \
  --set checkpoint.memory_every=0
exit $failed
