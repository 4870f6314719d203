#!/usr/bin/env bash
# Runs of `trireme launch` end well: a rank that is killed is named, a signal saves, and no rank
# outlives its agent. Usage: launch.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"

# start NAME [OPTION...]: an endless run of two ranks; sets agent and pids, in the order of the
# ranks.
start() {
  "$trireme" launch "${@:2}" "$configs/tiny-gpt2.toml" --ranks 2 --set run.threads_per_rank=1 \
    --set checkpoint.every=5 --set run.reproducible=layout --set run.steps=100000 \
    --set checkpoint.keep=1 --out "$folder/$1" 2>"$folder/log" &
  agent=$!
  for ((i = 0; i < 600; i++)); do
    compgen -G "$folder/$1/checkpoints/step-*/index.json" >/dev/null && break
    sleep 0.05
  done
  pids=($(ranks_of $agent))
}
# Waits up to ten seconds for a process.
ends() {
  for ((i = 0; i < 200; i++)); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.05; done
  return 1
}

start killed --max-restarts 0
kill -KILL "${pids[1]}"
ends $agent || fail "the run goes on without rank 1"
wait $agent
code=$?
[[ $code == 5 ]] || fail "exit code $code after rank 1 was killed"
grep -q 'rank 1 failed first: it was killed by signal 9' "$folder/log" || fail "rank 1 is not named"
grep -q '"event":"failure".*rank 1 has died' "$folder/killed/metrics.jsonl" ||
  fail "no cause in the metrics"
grep -q '^exit code 5: rank 1 failed first: it was killed by signal 9' \
  <("$trireme" status "$folder/killed") || fail "the status does not say how the run has ended"

for signal in INT TERM USR1; do
  start "asked-$signal"
  kill -$signal $agent
  ends $agent || fail "SIG$signal does not end the run"
  wait $agent
  code=$?
  [[ $code == 130 ]] || fail "exit code $code after SIG$signal"
  grep -q 'stopped and saved' "$folder/log" || fail "the run has not saved after SIG$signal"
  "$trireme" status "$folder/asked-$signal" >"$folder/status"
  grep -q '^exit code 130: it was asked to stop, and has saved$' "$folder/status" &&
    grep -q '^rank 1 .*process - ' "$folder/status" || fail "the status: $(<"$folder/status")"
done

# What other programs take of the cores is told, and what the other ranks take is not theirs.
burners=()
for ((i = 0; i < $(nproc); i++)); do
  timeout 60 sh -c 'while :; do :; done' & burners+=($!)
done
start busy
sleep 1
kill -INT $agent
wait $agent
kill "${burners[@]}"
grep -qE '"cores_taken_by_others": 0\.[1-9]' "$folder/busy/summary.json" ||
  fail "beside busy programs: $(grep cores_taken "$folder/busy/summary.json")"

start orphaned --set checkpoint.memory_every=1
kill -KILL $agent
for pid in "${pids[@]}"; do ends "$pid" || fail "rank $pid has outlived its agent"; done
wait $agent 2>/dev/null
for ((i = 0; i < 200; i++)); do
  compgen -G "/dev/shm/trireme-*-$agent-*" >/dev/null || break
  sleep 0.05
done
((i < 200)) || fail "a launcher that was killed leaves its folder in memory"
start orphaned --resume auto
for ((i = 0; i < 200; i++)); do
  grep -q 'resumed after step' "$folder/log" && break
  sleep 0.05
done
((i < 200)) || fail "a run whose agent was killed does not resume"
kill -TERM $agent
wait $agent
code=$?
[[ $code == 130 ]] || fail "exit code $code of the resumed run"

"$trireme" launch "$configs/tiny-gpt2.toml" --set model.layres=2 --out "$folder/wrong" \
  2>"$folder/log"
[[ $? == 2 ]] || fail "a wrong key is not refused with exit code 2"
"$trireme" launch "$configs/tiny-gpt2.toml" --lease 9 --out "$folder/wrong" 2>"$folder/log"
[[ $? == 2 ]] && grep -q 'are for several hosts' "$folder/log" || fail "--lease on one host"
"$trireme" train "$configs/tiny-gpt2.toml" --set run.backend=tcp --out "$folder/wrong" \
  2>"$folder/log"
[[ $? == 2 ]] && grep -q 'trireme launch' "$folder/log" || fail "train with tcp is not refused"
((failed == 0)) || cat "$folder/log"
exit $failed
