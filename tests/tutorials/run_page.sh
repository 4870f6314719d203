#!/usr/bin/env bash
# Runs the commands of a tutorial exactly as they are on the page: run_page.sh TRIREME SOURCE_DIR
# PAGE.md
# Blocks marked ```sh are one script; a line that fails ends it. A comment <!-- check: COMMAND -->
# is run at its place too: it tests what the reader should see. A command that a page shows with ||
# echo "exit code $?" must fail. The reader works in the checkout; the test works in a copy of the
# parts that a page may use.
set -euo pipefail
trireme=$1
root=$2
page=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/build"
ln -s "$trireme" "$work/build/trireme"
for folder in configs clusters models docs; do ln -s "$root/$folder" "$work/$folder"; done

awk '/^```sh$/ {inside = 1; next}
     /^```/ {inside = 0; next}
     inside {print}
     !inside && /^<!-- check: .* -->$/ {sub(/^<!-- check: /, ""); sub(/ -->$/, ""); print}' \
  "$page" >"$work/commands.sh"
[[ -s $work/commands.sh ]] || { echo "$page has no commands"; exit 1; }

cd "$work"
unset CI NO_COLOR
if ! bash -euo pipefail -v commands.sh >log 2>&1 </dev/null; then
  cat log
  echo "FAILED: a command of $page"
  exit 1
fi
if [[ $(grep -c '|| echo "exit code' commands.sh) != $(grep -c '^exit code [0-9]' log) ]]; then
  cat log
  echo "FAILED: $page shows a command as refused that is not"
  exit 1
fi
echo "all good: $(grep -c trireme commands.sh) commands of ${page##*/}"
