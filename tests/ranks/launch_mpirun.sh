#!/usr/bin/env bash
# trireme launch with run.backend = "mpi": all ranks are started again after a loss, from the memory
# of the agent, with the same numbers. Usage: launch_mpirun.sh TRIREME MPIRUN CONFIGS
set -uo pipefail
source "${0%/*}/mpirun.sh" "$1" "$2"
trireme=$1
configs=$3
. "$(dirname "$0")/job_folder.sh"
. "$(dirname "$0")/times.sh"

common=("$configs/tiny-gpt2.toml" --set run.threads_per_rank=1 --set run.reproducible=layout
        --set run.steps=100000 --set model.layers=2 --set batch.global_sequences=6)
run=("$trireme" launch "${common[@]}" --set run.backend=mpi --mpirun "${launch[*]}" --ranks 3
     --set checkpoint.memory_every=1)
weights() {
  "$trireme" checkpoint export "$folder/$1" --format hf --out "$folder/weights-of-$1" \
    >/dev/null 2>&1 || { echo "$1 has none"; return; }
  sha256sum <"$folder/weights-of-$1/model.safetensors"
}
step_of() {
  grep '"event":"train"' "$folder/$1/metrics.jsonl" | tail -1 |
    grep -oE '"step":[0-9]+' | tr -dc 0-9
}
restarts() { cat "$folder/$1/metrics.jsonl" 2>/dev/null | grep -c '"event":"restart"'; }
pid_of_rank() {
  "$trireme" status "$folder/$1" --json 2>/dev/null | grep -oE '"rank":'"$2"',[^}]*' |
    grep -oE '"pid":[0-9]+' | tr -dc 0-9
}

# The agent reports once a second, so it may still name the processes of the epoch before.
is_told() {  # RUN EPOCH
  for ((i = 0; i < 250; i++)); do
    "$trireme" status "$folder/$1" --json 2>/dev/null | grep -q "\"epoch\":$2," && return
    sleep 0.02
  done
  fail "the status of $1 does not name epoch $2"
}

# Two ranks are killed, one after the other. Then a signal saves.
"${run[@]}" --out "$folder/lost" 2>"$folder/log" &
agent=$!
for loss in 1 2; do
  reaches $((15 * loss)) lost
  is_told lost $loss
  kill -KILL "$(pid_of_rank lost $loss)" || fail "rank $loss has no process"
  for ((i = 0; i < 500; i++)); do (($(restarts lost) == loss)) && break; sleep 0.02; done
done
reaches 40 lost
kill -INT $agent
wait $agent
code=$?
[[ $code == 130 ]] || fail "exit code $code after a signal"
grep -q 'stopped and saved after step' "$folder/log" || fail "the run has not saved"
[[ $(restarts lost) == 2 ]] || fail "$(restarts lost) restarts"
for loss in 1 2; do tell_gap "rank $loss under mpirun is killed" "$folder/lost" $loss; done
for loss in 1 2; do
  grep -q '"class":"killed","rank":'$loss',' "$folder/lost/metrics.jsonl" ||
    fail "the metrics do not say that rank $loss was killed"
done
[[ $(grep -cE '"from":"memory".*"redone_steps":[01],' "$folder/lost/metrics.jsonl") == 2 ]] ||
  fail "other steps are done again: $(grep -o '"from":"[^,]*\|"redone_steps":[0-9]*' \
    "$folder/lost/metrics.jsonl" | tr '\n' ' ')"
compgen -G "/dev/shm/trireme-*-$agent-*" >/dev/null && fail "the folder in memory is left"
"$trireme" train "${common[@]}" --set run.stop_after="$(step_of lost)" --out "$folder/calm" \
  2>>"$folder/log"
cmp -s <(numbers calm) <(numbers lost) || fail "a lost rank has changed the numbers"
[[ $(weights calm) == "$(weights lost)" ]] || fail "a lost rank has changed the weights"

# The agent is killed: the ranks of its mpirun die, and another agent starts all of them again. A
# killed launcher leaves no rank behind.
"${run[@]}" --resume auto --out "$folder/lost" 2>>"$folder/log" &
agent=$!
for ((i = 0; i < 500; i++)); do
  grep -q '"state":"running"' <("$trireme" status "$folder/lost" --json) && break
  sleep 0.02
done
rank=$(pid_of_rank lost 1)
before=$(restarts lost)
kill -KILL "$(agent_of $agent)"
for ((i = 0; i < 500; i++)); do (($(restarts lost) > before)) && break; sleep 0.02; done
((i < 500)) || fail "the run has not resumed after its agent was killed"
kill -0 "$rank" 2>/dev/null && fail "a rank of the killed agent lives"
grep -q 'lost its agent' "$folder/log" || fail "the lost agent is not told"
for ((i = 0; i < 250; i++)); do
  [[ $(pid_of_rank lost 1) != "$rank" && -n $(pid_of_rank lost 1) ]] && break
  sleep 0.02
done
rank=$(pid_of_rank lost 1)
kill -KILL $agent
wait $agent 2>/dev/null
for ((i = 0; i < 100; i++)); do kill -0 "$rank" 2>/dev/null || break; sleep 0.02; done
kill -0 "$rank" 2>/dev/null && fail "a rank has outlived its agent"

# A failure that comes again ends the run with its cause.
"${run[@]}" --set optim.lr=1e30 --out "$folder/diverged" 2>"$folder/log"
code=$?
[[ $code == 5 ]] || fail "exit code $code of a run that diverges"
grep -q 'failed first.*it has failed twice in the same way after step' "$folder/log" ||
  fail "the end is not explained"
grep -q 'no gradient was finite' "$folder/log" || fail "the cause is not told"

# What MPI cannot do is refused.
"${run[@]}" --hosts a,b --out "$folder/hosts" 2>"$folder/log"
[[ $? == 2 ]] && grep -q 'on this host only' "$folder/log" || fail "several hosts are not refused"
((failed == 0)) || cat "$folder/log"
exit $failed
