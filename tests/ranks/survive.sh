#!/usr/bin/env bash
# Which failures a run of `trireme launch` survives, and which end it. Usage: survive.sh TRIREME
# CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"
mkdir "$folder/disk"
trap 'umount "$folder/disk" 2>/dev/null; rm -rf "$folder"' EXIT

steps=150
run=("$trireme" launch "$configs/tiny-gpt2.toml" --set run.threads_per_rank=1
     --set checkpoint.every=5 --set checkpoint.keep=2 --set run.reproducible=layout
     --set run.steps=$steps --set model.layers=2 --set batch.global_sequences=4)
# The last weights, whatever layout has written them.
weights() {
  rm -rf "$folder/weights-of-${1/\//-}"
  "$trireme" checkpoint export "$folder/$1/checkpoints/step-$(printf %06d $steps)" \
    --format hf --out "$folder/weights-of-${1/\//-}" >/dev/null 2>&1 ||
    { echo "$1 has none"; return; }
  sha256sum <"$folder/weights-of-${1/\//-}/model.safetensors"
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

# Lost ranks are left out, with the same numbers. Three ranks train with a smaller dp, the last one
# in a layout that the search finds, because no dp is left for two stages.
"${run[@]}" --ranks 4 --out "$folder/calm" 2>"$folder/log" || fail "the calm run"
"${run[@]}" --ranks 4 --on-loss shrink --set parallel.pp=2 --out "$folder/shrunk" \
  2>"$folder/log" &
agent=$!
for loss in 1 2; do
  reaches $((30 * loss)) shrunk
  pids=($(ranks_of $agent))
  kill -KILL "${pids[0]}"
  for ((i = 0; i < 200; i++)); do (($(restarts shrunk) == loss)) && break; sleep 0.02; done
done
wait $agent || fail "exit code of the shrunk run"
layouts=$(grep -oE '"layout":"[^"]*"' "$folder/shrunk/metrics.jsonl" | tr '\n' ' ')
[[ $layouts == '"layout":"dp=1 pp=2 schedule=1f1b" "layout":"dp=1" ' ]] ||
  fail "the layouts of fewer ranks are $layouts"
cmp -s <(numbers calm) <(numbers shrunk) || fail "fewer ranks have other numbers"
[[ $(weights calm) == $(weights shrunk) ]] || fail "fewer ranks have other weights"

# A user may forbid other layouts.
"${run[@]}" --ranks 2 --on-loss shrink --layouts same --out "$folder/same" 2>"$folder/log" &
agent=$!
reaches 10 same
pids=($(ranks_of $agent))
kill -KILL "${pids[0]}"
wait $agent
code=$?
[[ $code == 5 ]] || fail "exit code $code of a run whose layout must stay"
grep -q 'the layout of 2 ranks may not change, but only 1 rank can run' "$folder/log" ||
  fail "it is not said that the layout must stay"

# With checkpoints in memory, at most one step is done again. If the newest one is damaged, an older
# one or one on disk is taken. The folder in memory goes with the job.
newest_in_memory() {  # that is committed; the loss may have left a later one unfinished
  dirname "$(ls -d /dev/shm/trireme-*-$agent-*/step-??????/index.json 2>/dev/null | tail -1)"
}
"${run[@]}" --ranks 2 --set checkpoint.memory_every=1 \
  --out "$folder/memory" 2>"$folder/log" &
agent=$!
for loss in 1 2; do
  reaches $((40 * loss)) memory
  pids=($(ranks_of $agent))
  kill -STOP "$(agent_of $agent)"
  kill -KILL "${pids[loss - 1]}"
  if ((loss == 2)); then
    sleep 0.5  # the other rank may be about to commit a checkpoint
    for shard in "$(newest_in_memory)"/*.safetensors; do
      # In the last tensor: damage of the header would be noticed when the checkpoint is opened.
      printf damaged | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 9)) conv=notrunc \
        2>/dev/null
    done
  fi
  kill -CONT "$(agent_of $agent)"
  for ((i = 0; i < 200; i++)); do (($(restarts memory) == loss)) && break; sleep 0.02; done
done
grep -q '"redone_steps":[01],"ms"' "$folder/memory/metrics.jsonl" ||
  fail "other steps are done again: $(grep -o '"redone_steps":[0-9]*' \
    "$folder/memory/metrics.jsonl")"
wait $agent || fail "exit code of the run with checkpoints in memory"
grep -q 'skipping a damaged checkpoint: /dev/shm' "$folder/log" || fail "damage is not noticed"
compgen -G "/dev/shm/trireme-*-$agent-*" >/dev/null && fail "the folder in memory is left"
cmp -s <(numbers calm) <(numbers memory) || fail "memory has other numbers"

# A disk that is full for a while ends no run, even if a rank is lost meanwhile. The disk is small;
# where none can be made, this is skipped.
if mount -t tmpfs -o size=14m tmpfs "$folder/disk" 2>/dev/null; then
  # Evaluations make it slow, so that it does not end while the disk is full.
  "${run[@]}" --ranks 2 --set checkpoint.keep=1 --set run.eval_every=1 \
    --set run.eval_sequences=32 --out "$folder/disk/run" 2>"$folder/log" &
  agent=$!
  reaches 10 disk/run
  dd if=/dev/zero of="$folder/disk/full" bs=64k 2>/dev/null
  pids=($(ranks_of $agent))
  kill -KILL "${pids[1]}"
  for ((i = 0; i < 500; i++)); do
    grep -q 'has no checkpoint' <(sed '1,/epoch 2 resumes/d' "$folder/log") && break
    sleep 0.01
  done
  ((i < 500)) || fail "no epoch trains on a full disk"
  rm "$folder/disk/full"
  wait $agent || fail "exit code of the run on a full disk: $(tail -n 3 "$folder/log")"
  [[ $(weights calm) == $(weights disk/run) ]] || fail "a full disk has changed the weights"
fi

# A signal in the middle of a recovery saves, too.
"${run[@]}" --ranks 2 --set run.steps=100000 --out "$folder/asked" 2>"$folder/log" &
agent=$!
reaches 20 asked
for ((i = 0; i < 200; i++)); do
  "$trireme" status "$folder/asked" &>/dev/null && break
  sleep 0.02
done
"$trireme" status "$folder/asked" --watch >"$folder/watched" &
watcher=$!
pids=($(ranks_of $agent))
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
wait $watcher || fail "exit code of the status that was watched"
grep -q '^failure 1' "$folder/watched" && grep -q '^ended: epoch 2' "$folder/watched" ||
  fail "the watched status has missed the failure or the end"
"$trireme" stop "$folder/asked" 2>/dev/null && fail "a run that has ended can be stopped"
mkdir "$folder/elsewhere"
"$trireme" status "$folder/elsewhere" 2>"$folder/log"
[[ $? == 2 ]] && grep -q 'has no agent.json' "$folder/log" || fail "a status out of nothing"
((failed == 0)) || cat "$folder/log"
exit $failed
