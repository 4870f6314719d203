#!/usr/bin/env bash
# The page of two runs on a phone: a run has one step time in all tables, and keys that differ are
# listed instead of being squeezed into narrow columns: compare_page_test.sh TRIREME SOURCE_DIR
set -u
trireme=$1
root=$2
if ! command -v chromium >/dev/null; then
  echo "skipped: chromium is not installed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

for run in first second; do
  "$trireme" train "$root/configs/tiny-gpt2.toml" --set run.threads_per_rank=1 --set run.steps=5 \
    --set "optim.lr=${#run}e-3" --out $run >out 2>err || { fail "$run"; cat err; }
done
"$trireme" report --compare first second --out page.html >out || fail "no page"
timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=390,900 --dump-dom \
  "file://$work/page.html" >dom 2>err || { fail "no browser"; tail -n 3 err; }
# Both runs in the first table; then each predicted and measured.
mapfile -t steps < <(grep -oE '<td[^>]* data-name="step \(median\)">[^<]*' dom | sed 's/.*>//')
echo "steps: ${steps[*]}"
[[ ${#steps[@]} == 6 && ${steps[0]} == "${steps[3]}" && ${steps[1]} == "${steps[5]}" ]] ||
  fail "step times differ"
grep -q 'Configuration keys that differ</h3><div class="scroll"><table class="stacks">' dom ||
  fail "keys stand in columns"

((failures == 0)) && echo "all good"
exit $((failures > 0))
