#!/usr/bin/env bash
# The effective share of a run in a storm is the predicted one within two points (`trireme chaos`).
# Usage: storm_share.sh TRIREME CONFIGS [SECONDS] [INTERVAL] [SEED]
set -uo pipefail
trireme=$1
configs=$2
seconds=${3:-3600}
interval=${4:-15}
seed=${5:-1}
. "$(dirname "$0")/job_folder.sh"

"$trireme" chaos "$configs/tiny-gpt2.toml" --ranks 4 --set run.threads_per_rank=1 \
  --set checkpoint.every=50 --set checkpoint.keep=2 --set run.steps=10000000 \
  --set run.eval_every=0 --set model.d_model=128 --duration "$seconds" --mtbf "$interval" \
  --seed "$seed" --faults kill --out "$folder/storm" --json >"$folder/json" 2>"$folder/log" ||
  { cat "$folder/json" "$folder/log"; echo "FAILED: the storm was not survived"; exit 1; }
value() { grep -m1 -E "^  \"$1\": " "$folder/json" | grep -oE '[0-9.]+'; }
awk -v p="$(value predicted)" -v m="$(value effective)" -v n="$(value failures)" 'BEGIN {
    printf "%d failures, effective share: predicted %.2f %%, ", n, 100 * p
    printf "measured %.2f %%\n", 100 * m
    exit m - p > 0.02 || p - m > 0.02}' ||
  { echo "FAILED: they differ by more than two points"; exit 1; }
