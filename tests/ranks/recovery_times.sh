#!/usr/bin/env bash
# Measures how long `trireme launch` takes from the death of a rank to the next step: median and
# 99th percentile over many kills. It fails if a kill is not survived, or if the medians exceed 1 s
# for the first step or 0.1 s for the new epoch.
# Usage: recovery_times.sh TRIREME CONFIGS [KILLS] [RANKS...]
set -uo pipefail
trireme=$1
configs=$2
kills=${3:-30}
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }
restarts() { grep -c '"event":"restart"' "$folder/run/metrics.jsonl" 2>/dev/null || true; }

for ranks in "${@:-4}"; do
  rm -rf "$folder/run"
  "$trireme" launch "$configs/tiny-gpt2.toml" --ranks "$ranks" --set run.threads_per_rank=1 \
    --set checkpoint.every=5 --set checkpoint.keep=2 --set run.steps=1000000 \
    --set batch.global_sequences=8 --max-restarts 100000 --out "$folder/run" 2>"$folder/log" &
  agent=$!
  for ((i = 0; i < 1000; i++)); do
    grep -q '"train","step":5,' "$folder/run/metrics.jsonl" 2>/dev/null && break
    sleep 0.02
  done
  for ((kill = 1; kill <= kills; kill++)); do
    sleep "0.$(printf '%03d' $((200 + RANDOM % 300)))"
    pids=($(pgrep -P $agent))
    ((${#pids[@]} > 0)) || break
    kill -KILL "${pids[RANDOM % ${#pids[@]}]}"
    for ((i = 0; i < 1000; i++)); do (($(restarts) >= kill)) && break; sleep 0.02; done
  done
  kill -TERM $agent
  wait $agent
  (($(restarts) == kills)) || { tail -n 3 "$folder/log"; fail "$(restarts) recoveries of $kills"; }
  line="$ranks ranks, $(restarts) kills, ms from the detection (median / p99):"
  for time in epoch join state first_step; do
    times=$(grep -o "\"$time\":[0-9]*\.[0-9]*" "$folder/run/metrics.jsonl" | cut -d: -f2 | sort -n |
      awk '{times[NR] = $1}
        END {printf "%.0f / %.0f", times[int((NR + 1) / 2)], times[int(0.99 * (NR - 1)) + 1]}')
    line+="  $time $times"
    median=${times% / *}
    [[ $time == epoch ]] && ((median > 100)) && fail "the median of the new epoch is $median ms"
    [[ $time == first_step ]] && ((median > 1000)) && fail "the median of the step is $median ms"
  done
  echo "$line"
done
exit $failed
