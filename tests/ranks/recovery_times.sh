#!/usr/bin/env bash
# Measures how long `trireme launch` takes from the death of a rank to the next step: median and
# 99th percentile over many kills. After each step there is a checkpoint in memory. It fails if a
# kill is not survived, if more than a step is done again, or if the medians exceed 1 s from the
# death to the end of the first step or 0.1 s from the detection to the new epoch.
# With agent:RANKS, the agent is killed instead, and all its ranks with it.
# Usage: recovery_times.sh TRIREME CONFIGS [KILLS] [RANKS|agent:RANKS...]
set -uo pipefail
trireme=$1
configs=$2
kills=${3:-30}
shift 3
. "$(dirname "$0")/job_folder.sh"
restarts() { grep -c '"event":"restart"' "$folder/run/metrics.jsonl" 2>/dev/null || true; }

for case in "${@:-4}"; do
  ranks=${case#agent:}
  rm -rf "$folder/run" "$folder/deaths"
  "$trireme" launch "$configs/tiny-gpt2.toml" --ranks "$ranks" --set run.threads_per_rank=1 \
    --set checkpoint.memory_every=1 --set checkpoint.every=100 --set checkpoint.keep=2 \
    --set run.steps=1000000 --set batch.global_sequences=8 --max-restarts 100000 \
    --out "$folder/run" 2>"$folder/log" &
  agent=$!
  for ((i = 0; i < 1000; i++)); do
    grep -q '"train","step":5,' "$folder/run/metrics.jsonl" 2>/dev/null && break
    sleep 0.02
  done
  for ((kill = 1; kill <= kills; kill++)); do
    sleep "0.$(printf '%03d' $((200 + RANDOM % 300)))"
    pids=($(ranks_of $agent))
    [[ $case == agent:* ]] && pids=($(agent_of $agent))
    ((${#pids[@]} > 0)) || break
    echo "$EPOCHREALTIME" >>"$folder/deaths"
    kill -KILL "${pids[RANDOM % ${#pids[@]}]}"
    for ((i = 0; i < 1000; i++)); do (($(restarts) >= kill)) && break; sleep 0.02; done
  done
  kill -TERM $agent
  wait $agent
  (($(restarts) == kills)) || { tail -n 3 "$folder/log"; fail "$(restarts) recoveries of $kills"; }
  grep '"event":"restart"' "$folder/run/metrics.jsonl" | paste -d' ' - "$folder/deaths" \
    >"$folder/restarts"
  line="$case ranks, $(restarts) kills, ms (median / p99)"
  for time in detected step epoch join state first_step; do
    times=$(awk -v name="$time" '
      function value(key, text) {
        match(text, "\"" key "\":[0-9.]+")
        return substr(text, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
      }
      {
        ms = substr($0, index($0, "\"ms\":"))
        since_death = 1e3 * (value("time", $0) - $NF)  # of the first step
        if (name == "step") print since_death
        else if (name == "detected") print since_death - value("first_step", ms)
        else print value(name, ms)
      }' "$folder/restarts" | sort -g | awk '{times[NR] = $1}
        END {printf "%.0f / %.0f", times[int((NR + 1) / 2)], times[int(0.99 * (NR - 1)) + 1]}')
    [[ $time == detected ]] && line+="  since the death:"
    [[ $time == epoch ]] && line+="  since the detection:"
    line+="  $time $times"
    median=${times% / *}
    [[ $time == epoch ]] && ((median > 100)) && fail "the median of the new epoch is $median ms"
    [[ $time == step ]] && ((median > 1000)) && fail "the median of the step is $median ms"
  done
  redone=$(grep -oE '"redone_steps":[0-9]+' "$folder/restarts" | cut -d: -f2 | sort -n | tail -1)
  ((redone <= 1)) || fail "$redone steps were done again"
  echo "$line  steps done again: at most $redone"
done
exit $failed
