#!/usr/bin/env bash
# The agent of a job on one host is killed, and all its ranks with it. Its launcher starts another
# one, and the run resumes by itself with the same numbers. Usage: lost_agent.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"

steps=150
run=("$trireme" launch "$configs/tiny-gpt2.toml" --ranks 4 --set run.threads_per_rank=1
     --set checkpoint.every=5 --set checkpoint.keep=2 --set run.reproducible=layout
     --set run.steps=$steps --set model.layers=2 --set batch.global_sequences=4)
weights() {
  rm -rf "$folder/weights-of-$1"
  "$trireme" checkpoint export "$folder/$1/checkpoints/step-$(printf %06d $steps)" \
    --format hf --out "$folder/weights-of-$1" >/dev/null 2>&1 || { echo "$1 has none"; return; }
  sha256sum <"$folder/weights-of-$1/model.safetensors"
}
same_as_calm() {
  cmp -s <(numbers calm) <(numbers "$1") || fail "$1 has other numbers"
  [[ $(weights calm) == $(weights "$1") ]] || fail "$1 has other weights"
}
is_resumed() {  # OUT RESTARTS
  for ((i = 0; i < 1000; i++)); do (($(restarts "$1") >= $2)) && return; sleep 0.02; done
  fail "$1 has not resumed $2 times"
}
"${run[@]}" --out "$folder/calm" 2>"$folder/log" || fail "the calm run"

# The state comes from the memory of the killed agents. A rank is lost, too, before the second one.
"${run[@]}" --set checkpoint.memory_every=1 --out "$folder/memory" 2>"$folder/log" &
launcher=$!
reaches 30 memory
"$trireme" status "$folder/memory" --watch >"$folder/watched" &
watcher=$!
ranks=($(ranks_of $launcher))
kill -KILL "$(agent_of $launcher)"
is_resumed memory 1
for pid in "${ranks[@]}"; do
  kill -0 "$pid" 2>/dev/null && fail "rank $pid has outlived its agent"
done
reaches 60 memory
ranks=($(ranks_of $launcher))
kill -KILL "${ranks[1]}"
is_resumed memory 2
reaches 90 memory
kill -KILL "$(agent_of $launcher)"
wait $launcher || fail "exit code $? after the agent was killed twice"
wait $watcher || fail "exit code of the status that was watched"
grep -q '^ended: ' "$folder/watched" || fail "the watched status has missed the end"
same_as_calm memory
[[ $(grep '"event":"restart"' "$folder/memory/metrics.jsonl" |
     grep -cE '"from":"memory".*"redone_steps":[01],') == 3 ]] ||
  fail "other steps are done again: $(grep '"restart"' "$folder/memory/metrics.jsonl")"
[[ $(grep '"event":"failure"' "$folder/memory/metrics.jsonl" |
     grep -oE '"(class|number)":("[a-z]+"|[0-9]+)' | tr '\n' ' ') == \
  '"class":"host" "number":1 "class":"killed" "number":2 "class":"host" "number":3 ' ]] ||
  fail "the failures are $(grep '"failure"' "$folder/memory/metrics.jsonl")"
grep -q 'lost its agent: it was killed by signal 9' "$folder/log" || fail "the cause is not told"
grep -q '"failures": 3' "$folder/memory/summary.json" || fail "the summary has not 3 failures"
compgen -G "/dev/shm/trireme-*-$launcher-*" >/dev/null && fail "the folder in memory is left"

# The state comes from the disk. Ranks that would be left out if they were lost alone come back.
"${run[@]}" --on-loss shrink --out "$folder/disk" 2>"$folder/log" &
launcher=$!
reaches 30 disk
kill -KILL "$(agent_of $launcher)"
wait $launcher || fail "exit code $? without checkpoints in memory"
same_as_calm disk
grep -q '"from":"disk"' <(restart disk) || fail "the state is not from the disk"

# A job whose agent was replaced can be stopped, and saves.
"${run[@]}" --set run.steps=100000 --out "$folder/stopped" 2>"$folder/log" &
launcher=$!
reaches 20 stopped
kill -KILL "$(agent_of $launcher)"
is_resumed stopped 1
"$trireme" stop "$folder/stopped" >/dev/null || fail "stop"
wait $launcher
[[ $? == 130 ]] || fail "exit code of the run that was stopped"

# ends NAME TEXT STEP [OPTION...]: the loss of the agent after a step ends the run with exit code 5
# and this text, and leaves nothing in memory.
ends() {
  "${run[@]}" --set checkpoint.memory_every=1 --set run.steps=100000 --out "$folder/$1" "${@:4}" \
    2>"$folder/log" &
  launcher=$!
  if (($3 > 0)); then reaches "$3" "$1"; fi
  until pid=$(agent_of $launcher) && [[ -n $pid ]]; do sleep 0.001; done
  kill -KILL "$pid"
  wait $launcher
  code=$?
  [[ $code == 5 ]] || fail "exit code $code: $1"
  grep -q "$2" "$folder/log" || fail "no \"$2\": $(<"$folder/log")"
  compgen -G "/dev/shm/trireme-*-$launcher-*" >/dev/null && fail "$1 leaves its folder in memory"
}
ends forbidden 'the run ends, because --max-restarts is 0' 10 --max-restarts 0
ends early 'the run ends, because training had not begun' 0
((failed == 0)) || cat "$folder/log"
exit $failed
