#!/usr/bin/env bash
# The effective share of a run in a storm is the predicted one within two points. A run of a
# minute with ten failures says how long a step and a recovery take. Then a rank is killed every
# INTERVAL seconds on average, for SECONDS, and `effective` of summary.json is compared with
#   1 - (recovery + (checkpoint.every - 1) / 2 * step) / INTERVAL.
# Usage: storm_share.sh TRIREME CONFIGS [SECONDS] [INTERVAL] [SEED]
set -uo pipefail
trireme=$1
configs=$2
seconds=${3:-3600}
interval=${4:-15}
RANDOM=${5:-1}
every=50
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# storm OUT SECONDS INTERVAL: trains until SECONDS have passed since the first steps, and kills a
# rank again and again, between half and one and a half INTERVAL after the one before.
storm() {
  "$trireme" launch "$configs/tiny-gpt2.toml" --ranks 4 --set run.threads_per_rank=1 \
    --set checkpoint.every=$every --set checkpoint.keep=2 --set run.steps=10000000 \
    --set run.eval_every=0 --set model.d_model=128 --max-restarts 100000 \
    --out "$folder/$1" 2>"$folder/log" &
  local agent=$! end pids
  until grep -q "\"train\",\"step\":$every," "$folder/$1/metrics.jsonl" 2>/dev/null; do
    kill -0 $agent 2>/dev/null || fail "the run has ended before it was disturbed"
    sleep 0.1
  done
  end=$((SECONDS + $2))
  while true; do
    sleep "$(awk -v i="$3" -v r=$RANDOM 'BEGIN {printf "%.3f", i * (0.5 + r / 32768)}')"
    ((SECONDS < end)) || break
    pids=($(pgrep -P $agent))
    ((${#pids[@]} > 0)) || fail "the run has ended"
    kill -KILL "${pids[RANDOM % ${#pids[@]}]}"
  done
  kill -TERM $agent
  wait $agent
  (($? == 130)) || fail "the run was not stopped by the signal"
}

# mean KEY OUT: the mean of a time in metrics.jsonl, which is written with its decimals.
mean() {
  grep -o "\"$1\":[0-9]*\.[0-9e-]*" "$folder/$2/metrics.jsonl" | cut -d: -f2 |
    awk '{sum += $1} END {printf "%.6f", sum / NR}'
}
summary() { grep -m1 -o "\"$1\": *[0-9.]*" "$folder/$2/summary.json" | grep -o '[0-9.]*$'; }

storm calibration 60 6
step=$(mean step_s calibration)
recovery_ms=$(awk -v d="$(mean detect calibration)" -v f="$(mean first_step calibration)" \
  'BEGIN {print d + f}')
predicted=$(awk -v s="$step" -v r="$recovery_ms" -v e=$every -v i="$interval" \
  'BEGIN {printf "%.4f", 1 - (r / 1000 + (e - 1) / 2 * s) / i}')
storm storm "$seconds" "$interval"
measured=$(summary effective storm)
awk -v s="$step" -v r="$recovery_ms" -v p="$predicted" -v m="$measured" \
  -v n="$(summary failures storm)" 'BEGIN {
    printf "%d failures, step %.1f ms, recovery %.0f ms, ", n, 1000 * s, r
    printf "effective share: predicted %.2f %%, measured %.2f %%\n", 100 * p, 100 * m
    exit m - p > 0.02 || p - m > 0.02}' || fail "they differ by more than two points"
