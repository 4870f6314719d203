#!/usr/bin/env bash
# Runs the commands of a page as they stand there: run_page.sh TRIREME SOURCE_DIR PAGE.md FOLDER
# Blocks marked ```sh are one script, line for line; a line that fails ends it. A comment of the
# form <!-- check: COMMAND --> is run at its place as well: what the reader should see, as a test.
# A command that a page shows with || echo "exit code $?" has to fail.
# A pipe fails with any of its commands, so none may end before it has read all that is sent to it.
# A page may write only into my/FOLDER, so that no page finds the files of another one.
# The reader stands in the checkout; the test stands in a copy of what a page may use of it.
set -euo pipefail
trireme=$1
root=$2
page=$3
folder=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/build"
ln -s "$trireme" "$work/build/trireme"
for shared in configs clusters models docs; do ln -s "$root/$shared" "$work/$shared"; done

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
written=$({ ls; [[ ! -d my ]] || ls my | sed 's#^#my/#'; } |
  grep -vxE "build|configs|clusters|models|docs|commands.sh|log|my|my/$folder" || true)
if [[ $written ]]; then
  echo "FAILED: $page writes outside of my/$folder:" $written
  exit 1
fi
if [[ $(grep -c '|| echo "exit code' commands.sh) != $(grep -c '^exit code [0-9]' log) ]]; then
  cat log
  echo "FAILED: $page shows a command as refused that is not"
  exit 1
fi
echo "all good: $(grep -c trireme commands.sh) commands of ${page##*/}"
