#!/usr/bin/env bash
# Stages with their own numbers of ranks (parallel.stage_dp, stage_tp) and a table that both ends
# hold, as processes of `trireme launch`: they have the numbers of threads, also after ranks of both
# stages were killed. With fewer ranks the job ends and says why.
# Usage: uneven_stages.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"

steps=90
run=("$configs/tiny-llama.toml" --set run.threads_per_rank=1 --set run.reproducible=layout
     --set checkpoint.every=5 --set checkpoint.keep=2 --set run.steps=$steps --set model.layers=3
     --set model.tied_head=true --set batch.global_sequences=4 --set parallel.pp=2
     --set parallel.dp=2 --set parallel.stage_dp=2,1 --set parallel.order=tp,cp,dp,pp)
# kill_rank NUMBER OUT STEP: kills a rank of the agent once the run has done the step.
kill_rank() {
  reaches "$3" "$2"
  pids=($(ranks_of $agent))
  ((${#pids[@]} == 3)) || fail "${#pids[@]} ranks of 3"
  kill -KILL "${pids[$1]}"
}

"$trireme" train "${run[@]}" --out "$folder/threads" >/dev/null 2>"$folder/log" ||
  fail "threads: $(<"$folder/log")"
"$trireme" launch "${run[@]}" --ranks 3 --out "$folder/calm" >/dev/null 2>"$folder/log" ||
  fail "processes: $(<"$folder/log")"
[[ -n $(numbers threads) ]] || fail "there are no numbers"
cmp -s <(numbers threads) <(numbers calm) || fail "processes have other numbers than threads"

# Places with tensor parallel degrees of their own.
places=("${run[@]}" --set parallel.dp=1 --set parallel.stage_dp= --set parallel.tp=2
        --set parallel.stage_tp=1,2 --set run.steps=20)
"$trireme" train "${places[@]}" --out "$folder/places" >/dev/null 2>"$folder/log" ||
  fail "threads: $(<"$folder/log")"
"$trireme" launch "${places[@]}" --ranks 3 --out "$folder/places_launched" >/dev/null \
  2>"$folder/log" || fail "processes: $(<"$folder/log")"
[[ -n $(numbers places) ]] || fail "there are no numbers of places"
cmp -s <(numbers places) <(numbers places_launched) ||
  fail "processes have other numbers than threads at places with their own degrees"

# Once without and once with checkpoints in memory.
for every in 0 1; do
  "$trireme" launch "${run[@]}" --set checkpoint.memory_every=$every --out "$folder/killed-$every" \
    >/dev/null 2>"$folder/log" &
  agent=$!
  for loss in 1 2; do
    kill_rank $((loss * 2 - 2)) killed-$every $((25 * loss))
    for ((i = 0; i < 500; i++)); do
      (($(restarts killed-$every) == loss)) && break
      sleep 0.02
    done
  done
  wait $agent || fail "exit code of the run with killed ranks: $(tail -n 3 "$folder/log")"
  [[ $(restarts killed-$every) == 2 ]] || fail "$(restarts killed-$every) restarts"
  cmp -s <(numbers calm) <(numbers killed-$every) || fail "killed ranks have changed the numbers"
done

"$trireme" launch "${run[@]}" --on-loss shrink --out "$folder/shrunk" >/dev/null \
  2>"$folder/log" &
agent=$!
kill_rank 1 shrunk 10
wait $agent
code=$?
[[ $code == 5 ]] || fail "exit code $code of a run with too few ranks"
grep -q 'parallel.stage_dp = "2,1" needs 3 ranks, but only 2 ranks can run' "$folder/log" ||
  fail "it is not said why two ranks are too few: $(tail -n 3 "$folder/log")"
((failed == 0)) || cat "$folder/log"
exit $failed
