#!/usr/bin/env bash
# The agent kills the rank that hangs, and no other one, and writes down what was known about it.
# Usage: watchdog.sh RANKS_PROGRAM TRIREME CONFIGS [all]: `all` takes every kind of hang
set -uo pipefail
program=$1
trireme=$2
configs=$3
all=${4:-}
. "$(dirname "$0")/job_folder.sh"
. "$(dirname "$0")/times.sh"

# hangs HOW RANKS: the last rank but one is killed long before the deadline of 60 s.
hangs() {
  timeout 30 "$program" launch "$2" "watched_$1" 60 2>"$folder/log"
  local code=$?
  [[ $code == 5 ]] && grep -q "rank $(($2 - 2)) failed first: it did not answer and was killed" \
    "$folder/log" || fail "$1 of $2 ranks: exit $code, $(tail -n 3 "$folder/log")"
}
hangs spin 3
hangs stopped 2
if [[ $all == all ]]; then
  hangs deadlock 3
  hangs blocked 4
  timeout 60 "$program" launch 3 watched_slow 60 2>"$folder/log" || fail "a slow rank ends the run"
  grep -q 'rank 1 on host here is slow' "$folder/log" || fail "the slow rank is not named"
  grep -qE 'rank [02] on host here is slow' "$folder/log" && fail "another rank is called slow"
fi

# A run that trains: a rank is stopped, one crashes, one is killed.
"$trireme" launch "$configs/tiny-gpt2.toml" --ranks 2 --set run.threads_per_rank=1 \
  --set checkpoint.every=20 --set checkpoint.keep=1 --set run.steps=100000 \
  --out "$folder/run" 2>"$folder/log" &
agent=$!
# trains EPOCH: waits until the ranks of an epoch have done some steps.
trains() {
  for ((i = 0; i < 500; i++)); do
    "$trireme" status "$folder/run" 2>/dev/null | grep -q "epoch $1" && break
    sleep 0.05
  done
  sleep 1
}
number=0
# loses SIGNAL KIND CLASS EVIDENCE: rank 1 gets a signal.
loses() {
  ((number++))
  trains $number
  local pids=($("$trireme" status "$folder/run" --json | grep -oE '"rank":1,[^}]*"pid":[0-9]+' |
    grep -oE '[0-9]+$'))
  kill -"$1" "${pids[0]}"
  local evidence=$folder/run/failures/00$number
  for ((i = 0; i < 400; i++)); do [[ -f $evidence/index.html ]] && break; sleep 0.05; done
  ((i < 400)) || fail "SIG$1 leaves no evidence"
  for field in '"rank": 1' "\"kind\": \"$2\"" "\"failure_class\": \"$3\"" \
               '"phase": "\(step\|save\)"'; do
    grep -q "$field" "$evidence/evidence.json" || fail "evidence of SIG$1 has no $field"
  done
  grep -qE "$4" "$evidence/evidence.json" || fail "evidence of SIG$1 has no $4"
  grep -q 'trireme::' "$evidence/index.html" || fail "the page of SIG$1 names no function"
}
loses STOP hang hang 'do_signal_stop|"wchan|stopped'
loses SEGV crashed 'user program' '"crash": true'
[[ $all == all ]] && loses KILL killed unknown '"signal": 9'
"$trireme" stop "$folder/run" >/dev/null
wait $agent
# The budget of a step is a second here.
tell_gap "a rank is stopped" "$folder/run" 1 3
"$trireme" failures "$folder/run" >"$folder/failures"
grep -q '^failure 2 after step [0-9]*: user program' "$folder/failures" ||
  fail "the class of a crash"
if [[ $all == all ]]; then
  grep -q '^failure 3 after step [0-9]*: unknown' "$folder/failures" || fail "the class of a kill"
  grep -q 'evidence *signal 9, in phase' "$folder/failures" || fail "the evidence of a kill"
fi
grep -q '"event":"failure".*"failure_class":"hang"' "$folder/run/metrics.jsonl" ||
  fail "the line of the hang has no class"
judge_times
((failed == 0)) || cat "$folder/log" "$folder/failures"
exit $failed
