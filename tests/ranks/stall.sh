#!/usr/bin/env bash
# Measures how long training stands still for checkpoints in memory, one after every step, as a
# share of the step: with 1 and 2 ranks on one host, and with 2 or 3 hosts (network namespaces),
# which also keep copies, or make 2+1 parity. There is no checkpoint on disk, so all of the time
# that metrics.jsonl calls saving is this stall. In the second half of the run it is at most 1 %. In
# the first half, a job on several hosts may find out that copies take longer than a step, and it
# then skips checkpoints; the stall of the whole run is printed beside it. With more ranks than
# cores it is only printed, because ranks also wait for their turns on a core.
# By hand. Usage: stall.sh TRIREME CONFIGS [STEPS] [SHAPE:1|SHAPE:2|SHAPE:hosts2|SHAPE:hosts3...]
set -uo pipefail
trireme=$1
configs=$2
steps=${3:-24}
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
  apart=$(sed -nE 's/.*"memory_most_apart": *([0-9]+).*/\1/p' "$folder/run/summary.json")
  # Step and sum of the stall: at the first report of the second half, and at the last report.
  stalls=($(grep '"event":"goodput"' "$folder/run/metrics.jsonl" |
    sed -E 's/.*"step":([0-9]+).*"saving":([0-9.e-]+).*/\1 \2/' |
    awk -v half=$((steps / 2)) '!begun && ($1 >= half) { print; begun = 1 } END { print }'))
  grep '"event":"train"' "$folder/run/metrics.jsonl" | sed -E 's/.*"step_s":([0-9.e-]+).*/\1/' |
    sort -g | awk -v name="$shape, ranks: $ranks${where:+, one on each host}" \
      -v judged=$((ranks <= cores)) -v saves="$saves" -v apart="$apart" -v from="${stalls[0]}" \
      -v before="${stalls[1]}" -v to="${stalls[2]}" -v all="${stalls[3]}" '
      { step[NR] = $1 }
      END {
        usual = step[int((NR + 1) / 2)]
        if (to <= from) from = before = 0
        stall = (all - before) / (to - from)
        printf "%s: %d checkpoints, at most %d steps apart, step %.1f ms, stall %.2f ms each: " \
               "%.2f %% (whole run %.2f %%)\n", name, saves, apart, 1e3 * usual, 1e3 * stall,
               100 * stall / usual, 100 * all / to / usual
        exit saves < NR - 2 && apart < 2 || (judged && stall / usual > 0.01)
      }' || fail "more than 1 % of a step, or too few checkpoints"
done
exit $failed
