#!/usr/bin/env bash
# Measures how long training stands still for checkpoints in memory, one after every step, as a
# share of the step: with 1 and 2 ranks on one host, and with 2 or 3 hosts (network namespaces),
# which also keep copies, or make 2+1 parity. There is no checkpoint on disk, so all of the time
# that metrics.jsonl calls saving is this stall. It is at most 1 %. With more ranks than cores it is
# only printed, because ranks also wait for their turns on a core.
# By hand. Usage: stall.sh TRIREME CONFIGS [STEPS] [SHAPE:1|SHAPE:2|SHAPE:hosts2|SHAPE:hosts3...]
set -uo pipefail
trireme=$1
configs=$2
steps=${3:-16}
cases=("${@:4}")
if ((${#cases[@]} == 0)); then
  for shape in 6x384-8x256 gpt2-124m-4x64; do
    cases+=("$shape:1" "$shape:2" "$shape:hosts2" "$shape:hosts3")
  done
fi
. "$(dirname "$0")/namespaces.sh"
. "$(dirname "$0")/jobs_on_hosts.sh"
cores=$(nproc)

for case in "${cases[@]}"; do
  shape=${case%:*} ranks=${case#*:}
  where=()
  if [[ $ranks == hosts* ]]; then
    ((${#hosts[@]} == 3)) || make_namespaces 3 "" || continue
    ranks=${ranks#hosts}
    list=$(printf '%s:1,' "${hosts[@]:0:ranks}")
    where=(--hosts "${list%,}" --ssh "$shell" --listen "$gateway")
  fi
  sequences=$(sed -nE 's/^global_sequences = //p' "$configs/bench-$shape.toml")
  ((sequences = (sequences + ranks - 1) / ranks * ranks))
  threads=$((cores / ranks > 0 ? cores / ranks : 1))
  rm -rf "$folder/run"
  "$trireme" launch "$configs/bench-$shape.toml" --ranks "$ranks" "${where[@]}" \
    --set run.steps="$steps" --set run.threads_per_rank=$threads --set run.eval_every=0 \
    --set batch.global_sequences=$sequences --set batch.micro_sequences=$((sequences / ranks)) \
    --set checkpoint.memory_every=1 --set checkpoint.every=0 --out "$folder/run" \
    >/dev/null 2>"$folder/log" || { fail "$case"; continue; }
  saves=$(sed -nE 's/.*"memory_saves": *([0-9]+).*/\1/p' "$folder/run/summary.json")
  stall=$(grep '"event":"goodput"' "$folder/run/metrics.jsonl" | tail -1 |
    sed -E 's/.*"saving":([0-9.e-]+).*/\1/')
  grep '"event":"train"' "$folder/run/metrics.jsonl" | sed -E 's/.*"step_s":([0-9.e-]+).*/\1/' |
    sort -g | awk -v name="$shape, ranks: $ranks${where:+, one on each host}" \
      -v judged=$((ranks <= cores)) -v saves="$saves" -v stall="$stall" '
      { step[NR] = $1 }
      END {
        usual = step[int((NR + 1) / 2)]
        printf "%s: %d checkpoints, stall %.2f ms each, step %.1f ms: %.2f %%\n", name, saves,
               1e3 * stall / saves, 1e3 * usual, 100 * stall / saves / usual
        exit saves < NR - 2 || (judged && stall / saves / usual > 0.01)
      }' || fail "more than 1 % of a step, or too few checkpoints"
done
exit $failed
