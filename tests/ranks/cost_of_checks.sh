#!/usr/bin/env bash
# Measures what all checks for silent corruption cost together, in one run of two ranks.
# Most of its steps have no check, so each step with one is compared with the median of its
# neighbours, and a machine that becomes slower or faster changes nothing. Two short runs without
# any check, before and after it, show that its other steps take no longer. The cost is at most 2 %.
# The machine must be idle. Usage: cost_of_checks.sh TRIREME CONFIGS [STEPS] [S] [R] [P] [E]
set -uo pipefail
trireme=$1
configs=$2
steps=${3:-1000}
S=${4:-20} R=${5:-200} P=${6:-50} E=${7:-1000}
. "$(dirname "$0")/job_folder.sh"

# trains NAME [OPTIONS]
trains() {
  "$trireme" train "$configs/bench-6x384-8x256.toml" --ranks 2 --set run.threads_per_rank=1 \
    --set model.layers=4 --set model.d_model=256 --set model.heads=4 --set model.vocab_size=8192 \
    --set batch.global_sequences=2 --set batch.micro_sequences=1 --set run.steps="$steps" \
    --set run.eval_every=0 "${@:2}" --out "$folder/$1" >/dev/null 2>"$folder/log"
  local code=$?
  ((code == 0 || code == 130)) || { cat "$folder/log"; exit 1; }
  echo "$1: $(grep -E '"(cores_taken_by_others|step_s)":' "$folder/$1/summary.json" | tr -d '\n')"
}
# A line of metrics is written before the state is compared, so this time counts for the next step.
times() {
  grep '"event":"train"' "$folder/$1/metrics.jsonl" |
    sed -E 's/.*"step":([0-9]+),.*"time":([0-9.]+).*/\1 \2/' | awk -v S="$2" -v R="$3" -v P="$4" \
    -v E="$5" 'function median(list, n, i, j, t) {
      for (i = 2; i <= n; i++) {
        t = list[i]
        for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]
        list[j + 1] = t
      }
      return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
    }
    { time[$1] = $2; last = $1 }
    END {
      for (k = 12; k <= last; k++) {
        d[k] = time[k] - time[k - 1]
        checked[k] = k % R == 0 || k % P == 0 || k % E == 0 || (k - 1) % S == 0
      }
      for (k = 12; k <= last; k++) {
        n = 0
        for (j = k - 15; j <= k + 15; j++) if (j in d && !checked[j]) near[++n] = d[j]
        usual = median(near, n)
        all += usual
        if (!checked[k]) continue
        number++
        extra += d[k] - usual
      }
      printf "%d of %d steps with a check, %.3f s more than their neighbours, of %.3f s: %.2f %%\n",
          number, last - 11, extra, all, 100 * extra / all
      exit extra / all > 0.02
    }'
}
trains before --set run.stop_after=200
trains all --set run.check_state_every="$S" --set run.replay_every="$R" \
  --set run.check_products_every="$P" --set run.replay_elsewhere_every="$E"
trains after --set run.stop_after=200
grep -A11 '"corruption_checks"' "$folder/all/summary.json"
times all "$S" "$R" "$P" "$E"
