#!/usr/bin/env bash
# Measures what it costs that a run survives, in three ways that take turns, so that a machine that
# becomes slower changes all of them:
#   threads    `trireme train`: ranks are threads of one process
#   processes  `trireme launch`: ranks are processes, with an agent and its watchdog
#   surviving  the same with a checkpoint in memory after every step and one on disk beside training
# (On one host there is no parity, and the checks for silent corruption are off by default.)
# Each turn gives the ratios of their median steps from step 4 to the save on disk, and the time by
# which this save has made the run longer: the sum of all steps, less their number times the median.
# (Steps after it are not in the median, because writing beside them would count twice.) With one
# save on disk an hour (the longest interval of checkpoint.every = "auto"), the median ratio of
# surviving to processes is at most 1.02. That of surviving to threads is printed beside it.
# Turns in which others took more than 3 % of the cores do not count.
# By hand. Usage: cost_of_surviving.sh TRIREME CONFIGS [TURNS] [STEPS] [SHAPE:RANKS...]
# Exit code 77: no turn counts.
set -uo pipefail
trireme=$1
configs=$2
turns=${3:-5}
steps=${4:-24}
cases=("${@:5}")
((${#cases[@]} > 0)) ||
  cases=(6x384-8x256:1 6x384-8x256:2 gpt2-124m-1x1024:1 gpt2-124m-1x1024:2)
. "$(dirname "$0")/job_folder.sh"
cores=$(nproc)
save=$((steps * 2 / 3))
failed=0
counted=0

# runs WAY SHAPE RANKS: prints the mean of its steps and the median of those before the save in ms,
# and the share of the cores that others took.
runs() {
  local command=launch sequences sets=(--set checkpoint.every=0)
  sequences=$(sed -nE 's/^global_sequences = //p' "$configs/bench-$2.toml")
  ((sequences >= $3)) || sequences=$3
  [[ $1 == threads ]] && command=train
  [[ $1 == surviving ]] &&
    sets=(--set checkpoint.memory_every=1 --set checkpoint.keep=1 --set checkpoint.every=$save)
  rm -rf "$folder/run"
  local before after TIMEFORMAT='%U %S'
  before=$(head -1 /proc/stat)
  { time "$trireme" "$command" "$configs/bench-$2.toml" --ranks "$3" --set run.steps="$steps" \
    --set run.threads_per_rank=$((cores / $3)) --set run.eval_every=0 \
    --set batch.global_sequences="$sequences" --set batch.micro_sequences=$((sequences / $3)) \
    "${sets[@]}" --out "$folder/run" >/dev/null 2>"$folder/log"; } 2>"$folder/times" ||
    { cat "$folder/log" >&2; exit 1; }
  after=$(head -1 /proc/stat)
  # This is the time of the cores, in 1/100 s, that was neither idle nor spent by the run.
  local others
  others=$(awk -v before="$before" -v after="$after" '{
      split(before, b)
      split(after, a)
      for (i = 2; i <= 9; i++) all += a[i] - b[i]
      print 1 - (a[5] - b[5] + a[6] - b[6] + 100 * ($1 + $2)) / all
    }' "$folder/times")
  grep '"event":"train"' "$folder/run/metrics.jsonl" |
    sed -E 's/.*"step":([0-9]+),.*"time":([0-9.]+).*/\1 \2/' |
    awk -v others="$others" -v save=$save '
      $1 == 3 { first = last = $2 }
      $1 > 3 && $1 <= save { d[++n] = $2 - last }
      $1 > 3 { ++all; last = $2 }
      END {
        for (i = 2; i <= n; i++) {
          t = d[i]
          for (j = i - 1; j > 0 && d[j] > t; j--) d[j + 1] = d[j]
          d[j + 1] = t
        }
        median = (d[int((n + 1) / 2)] + d[int(n / 2) + 1]) / 2
        printf "%.1f %.1f %.3f\n", 1e3 * (last - first) / all, 1e3 * median, others
      }'
}
median() {
  sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'
}
percent() { awk -v ratio="$1" 'BEGIN {printf "%+.2f %%", 100 * (ratio - 1)}'; }

ways=(threads processes surviving)
for case in "${cases[@]}"; do
  shape=${case%:*} ranks=${case#*:}
  : >"$folder/ratios"
  : >"$folder/to_threads"
  for ((turn = 1; turn <= turns; turn++)); do
    for ((i = 0; i < 3; i++)); do
      way=${ways[((i + turn) % 3)]}
      runs "$way" "$shape" "$ranks" >"$folder/$way" || exit 1
    done
    paste -d' ' "$folder/threads" "$folder/processes" "$folder/surviving" |
      awk -v turn="$turn" -v list="$folder/ratios" -v threads="$folder/to_threads" \
        -v steps=$((steps - 3)) '{
      disk_s = 1e-3 * steps * (($7 - $8) - ($4 - $5))
      printf "  turn %d: median step of threads %.1f ms, processes %.1f ms, surviving %.1f ms; " \
             "the save on disk %.2f s", turn, $2, $5, $8, disk_s
      if ($3 > 0.03 || $6 > 0.03 || $9 > 0.03) {
        printf "; others took %.0f, %.0f and %.0f %% of the cores: not counted\n", 100 * $3,
               100 * $6, 100 * $9
      } else {
        printf "\n"
        disk = disk_s > 0 ? disk_s / 3600 : 0
        print $8 / $5 + disk >>list
        print $8 / $2 + disk >>threads
      }
    }'
  done
  number=$(wc -l <"$folder/ratios")
  ((number > 0)) || { echo "$shape, ranks: $ranks: no turn counts"; continue; }
  ((counted += number))
  ratio=$(median <"$folder/ratios")
  echo "$shape, ranks: $ranks: median of $number turns, one save on disk an hour:" \
    "$(percent "$ratio") of processes, $(percent "$(median <"$folder/to_threads")") of threads"
  awk "BEGIN {exit !($ratio > 1.02)}" && { echo "FAILED: more than 2 %"; failed=1; }
done
((counted > 0)) || { echo "skipped: the machine is busy"; exit 77; }
exit $failed
