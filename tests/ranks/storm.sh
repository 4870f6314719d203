#!/usr/bin/env bash
# A storm of failures changes no number: ranks of `trireme launch` are killed (SIGKILL) and stopped
# (SIGSTOP) at random moments. Losses, gradient norms and the last checkpoint are bit for bit those
# of a run that nobody has disturbed, and metrics.jsonl has every step once.
# Usage: storm.sh TRIREME CONFIGS [FAILURES] [SEED]
set -uo pipefail
trireme=$1
configs=$2
failures=${3:-5}
RANDOM=${4:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

steps=$((60 + 60 * failures))
run=("$trireme" launch "$configs/tiny-gpt2.toml" --ranks 4 --set run.threads_per_rank=1
     --set checkpoint.every=5 --set checkpoint.keep=2 --set run.reproducible=layout
     --set run.steps=$steps --set model.layers=1 --set batch.global_sequences=4
     --set run.comm_timeout_s=2 --max-restarts $((2 * failures + 100)))
train_lines() { grep '"event":"train"' "$folder/$1/metrics.jsonl"; }
numbers() { train_lines "$1" | grep -oE '"(step|loss|grad_norm)":[^,]*'; }
num_steps() { train_lines disturbed 2>/dev/null | wc -l; }
last=$(printf 'checkpoints/step-%06d' $steps)
hashes() { (cd "$folder/$1/$last" && sha256sum ./*.safetensors); }

"${run[@]}" --out "$folder/calm" 2>"$folder/calm.log" || { cat "$folder/calm.log"; exit 1; }
"${run[@]}" --out "$folder/disturbed" 2>"$folder/disturbed.log" &
agent=$!
for ((i = 0; i < 600; i++)); do (($(num_steps) > 5)) && break; sleep 0.02; done

# Three failures without a new step would end the run, so two may follow each other closely, and
# then two steps must come that were not done before. metrics.jsonl has every step once.
pair=0
for ((i = 0; i < failures; i++)); do
  sleep "0.$(printf '%03d' $((RANDOM % 400)))"
  pids=($(pgrep -P $agent))
  ((${#pids[@]} > 0)) || break
  victim=${pids[RANDOM % ${#pids[@]}]}
  signal=KILL
  ((i % 5 == 2)) && signal=STOP
  kill -$signal "$victim" 2>/dev/null
  ((pair = 1 - pair)) && [[ $signal == KILL ]] && continue
  pair=0
  before=$(num_steps)
  for ((k = 0; k < 1500; k++)); do
    (($(num_steps) > before + 1)) && break
    kill -0 $agent 2>/dev/null || break
    sleep 0.02
  done
done
wait $agent
code=$?
[[ $code == 0 ]] || fail "exit code $code"
cmp -s <(numbers calm) <(numbers disturbed) || fail "the numbers differ"
[[ $(train_lines disturbed | wc -l) == "$steps" ]] || fail "not every step stands there once"
cmp -s <(hashes calm) <(hashes disturbed) || fail "the last checkpoints differ"
survived=$(grep -m1 -o '"failures": *[0-9]*' "$folder/disturbed/summary.json" | grep -o '[0-9]*')
((survived > 0 && survived <= failures)) || fail "$survived failures were survived"
pgrep -P $agent >/dev/null && fail "a rank has outlived its agent"
if ((failed != 0)); then
  grep -v saved "$folder/disturbed.log"
  grep -E '"(failure|restart)"' "$folder/disturbed/metrics.jsonl"
fi
echo "$survived of $failures disturbances were failures; $steps steps have the same numbers"
exit $failed
