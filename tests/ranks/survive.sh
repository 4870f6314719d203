#!/usr/bin/env bash
# Which failures a run of `trireme launch` survives, and which end it. Usage: survive.sh TRIREME
# CONFIGS
set -uo pipefail
trireme=$1
configs=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

steps=150
run=("$trireme" launch "$configs/tiny-gpt2.toml" --set run.threads_per_rank=1
     --set checkpoint.every=5 --set checkpoint.keep=2 --set run.reproducible=layout
     --set run.steps=$steps --set model.layers=1 --set batch.global_sequences=4)
numbers() { grep '"event":"train"' "$folder/$1/metrics.jsonl" | grep -oE '"(step|loss)":[^,]*'; }
restarts() { grep -c '"event":"restart"' "$folder/$1/metrics.jsonl" 2>/dev/null; }
# reaches STEP OUT: waits until the run has done a step.
reaches() {
  for ((i = 0; i < 500; i++)); do
    grep -q "\"train\",\"step\":$1," "$folder/$2/metrics.jsonl" 2>/dev/null && return
    sleep 0.02
  done
  fail "$2 has not reached step $1"
}

# A failure that comes again after the same step ends the run with its cause.
"${run[@]}" --ranks 2 --set optim.lr=1e30 --out "$folder/diverged" 2>"$folder/log"
code=$?
[[ $code == 5 ]] || fail "exit code $code of a run that diverges"
grep -q 'failed first.*it has failed twice in the same way after step' "$folder/log" ||
  fail "the end is not explained"
grep -q 'no gradient was finite' "$folder/log" || fail "the cause is not told"
[[ $(restarts diverged) == 1 ]] || fail "$(restarts diverged) restarts of a run that diverges"
[[ $(grep -c '"event":"failure"' "$folder/diverged/metrics.jsonl") == 2 ]] ||
  fail "not every failure has its line"

# Before the first step nothing is started again.
"${run[@]}" --ranks 2 --set data.source=files --set data.train="$folder/none" \
  --out "$folder/none" 2>"$folder/log" && fail "a run without data ends well"
grep -q 'epoch 2' "$folder/log" && fail "a run without data is started again"

# A lost rank is left out, with the same numbers.
"${run[@]}" --ranks 4 --out "$folder/calm" 2>"$folder/log" || fail "the calm run"
"${run[@]}" --ranks 4 --on-loss shrink --out "$folder/shrunk" 2>"$folder/log" &
agent=$!
for loss in 1 2; do
  reaches $((30 * loss)) shrunk
  pids=($(pgrep -P $agent | sort -n))
  kill -KILL "${pids[0]}"
  for ((i = 0; i < 200; i++)); do (($(restarts shrunk) == loss)) && break; sleep 0.02; done
done
wait $agent || fail "exit code of the shrunk run"
grep -q '"layout":"dp=1"' "$folder/shrunk/metrics.jsonl" || fail "the layout has not shrunk"
cmp -s <(numbers calm) <(numbers shrunk) || fail "fewer ranks have other numbers"

# With checkpoints in memory, at most one step is done again. If the newest one is damaged, an older
# one or one on disk is taken. The folder in memory goes with the job.
newest_in_memory() { ls -d /dev/shm/trireme-*-$agent-*/step-?????? 2>/dev/null | tail -1; }
"${run[@]}" --ranks 2 --set checkpoint.memory_every=1 \
  --out "$folder/memory" 2>"$folder/log" &
agent=$!
for loss in 1 2; do
  reaches $((40 * loss)) memory
  pids=($(pgrep -P $agent | sort -n))
  kill -STOP $agent
  kill -KILL "${pids[loss - 1]}"
  if ((loss == 2)); then
    for shard in "$(newest_in_memory)"/*.safetensors; do
      printf x | dd of="$shard" bs=1 seek=3000 conv=notrunc 2>/dev/null
    done
  fi
  kill -CONT $agent
  for ((i = 0; i < 200; i++)); do (($(restarts memory) == loss)) && break; sleep 0.02; done
done
grep -q '"redone_steps":[01],"ms"' "$folder/memory/metrics.jsonl" ||
  fail "other steps are done again: $(grep -o '"redone_steps":[0-9]*' \
    "$folder/memory/metrics.jsonl")"
wait $agent || fail "exit code of the run with checkpoints in memory"
grep -q 'skipping a damaged checkpoint: /dev/shm' "$folder/log" || fail "damage is not noticed"
compgen -G "/dev/shm/trireme-*-$agent-*" >/dev/null && fail "the folder in memory is left"
cmp -s <(numbers calm) <(numbers memory) || fail "memory has other numbers"

# A signal in the middle of a recovery saves, too.
"${run[@]}" --ranks 2 --set run.steps=100000 --out "$folder/asked" 2>"$folder/log" &
agent=$!
reaches 20 asked
pids=($(pgrep -P $agent | sort -n))
kill -KILL "${pids[1]}"
for ((i = 0; i < 200; i++)); do grep -q 'epoch 2 resumes' "$folder/log" && break; sleep 0.005; done
for ((i = 0; i < 200; i++)); do
  grep -q '^failure 1 after.*rank 1 has died' <("$trireme" status "$folder/asked") && break
  sleep 0.02
done
((i < 200)) || fail "the status does not tell of the failure"
"$trireme" stop "$folder/asked" >"$folder/stop" || fail "stop: $(<"$folder/stop")"
wait $agent
code=$?
[[ $code == 130 ]] || fail "exit code $code after a signal during the recovery"
grep -q 'stopped and saved' "$folder/log" || fail "the run has not saved"
grep -q '^ended: epoch 2' <("$trireme" status "$folder/asked") || fail "the status of the end"
"$trireme" stop "$folder/asked" 2>/dev/null && fail "a run that has ended can be stopped"
mkdir "$folder/elsewhere"
"$trireme" status "$folder/elsewhere" 2>"$folder/log"
[[ $? == 2 ]] && grep -q 'has no agent.json' "$folder/log" || fail "a status out of nothing"
((failed == 0)) || cat "$folder/log"
exit $failed
