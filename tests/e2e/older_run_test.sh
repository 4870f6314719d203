#!/usr/bin/env bash
# A run that an older version wrote is read, and resumes with the same bits.
# older_run/run.tar.xz.base64 holds a run of 6 steps, written before the model became a graph of
# ops (commit 9c82811), on the reference kernels, whose bits do not depend on the CPU: its
# checkpoint after step 3, metrics, summary, and the hash of the state after step 6.
set -euo pipefail
trireme=$1
older=$2/tests/e2e/older_run
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
base64 -d "$older/run.tar.xz.base64" | tar -xJ

fail() { echo "FAILED: $1"; exit 1; }

"$trireme" checkpoint verify run/checkpoints/step-000003 >/dev/null ||
  fail "the older checkpoint does not verify"
"$trireme" report run >/dev/null || fail "the older run has no report"

numbers() { grep -oE '"(loss|grad_norm|val_loss)":[^,}]*' "$1/metrics.jsonl"; }
for layout in "" "--ranks 2 --set parallel.zero=0" "--ranks 2 --set parallel.zero=2"; do
  rm -rf new
  # shellcheck disable=SC2086
  "$trireme" train "$older/run.toml" $layout --resume run/checkpoints/step-000003 --out new \
    >/dev/null 2>log || { cat log; fail "the older checkpoint does not resume ($layout)"; }
  diff <(numbers run | tail -n "$(numbers new | wc -l)") <(numbers new) ||
    fail "steps 4 to 6 have other numbers ($layout)"
  [[ -n $layout ]] && continue
  (cd new/checkpoints/step-000006 && sha256sum --check --quiet "$folder/run/last.sha256") ||
    fail "the state after step 6 has other bits"
done
echo "a run of an older version resumes bit for bit"
