#!/usr/bin/env bash
# Measures how long `trireme launch` takes from the death of a rank to the next step: median and
# 99th percentile over many kills. Usage: recovery_times.sh TRIREME CONFIGS [KILLS] [RANKS...]
set -uo pipefail
trireme=$1
configs=$2
kills=${3:-30}
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
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
    kill -KILL "${pids[RANDOM % ${#pids[@]}]}"
    for ((i = 0; i < 1000; i++)); do (($(restarts) >= kill)) && break; sleep 0.02; done
  done
  kill -TERM $agent
  wait $agent
  line="$ranks ranks, $(restarts) kills, ms from the detection (median / p99):"
  for time in epoch join state first_step; do
    line+=$(grep -o "\"$time\":[0-9]*\.[0-9]*" "$folder/run/metrics.jsonl" | cut -d: -f2 | sort -n |
      awk -v name=$time '{times[NR] = $1}
        END {printf "  %s %.0f / %.0f", name, times[int((NR + 1) / 2)],
             times[int(0.99 * (NR - 1)) + 1]}')
  done
  echo "$line"
done
