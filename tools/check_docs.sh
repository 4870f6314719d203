#!/usr/bin/env bash
# Pages do not point at what is not there: links to files, and paths of the sources in back quotes.
set -euo pipefail
cd "$(dirname "$0")/.."
wrong=0
folders='src|tests|tools|fuzz|bench|configs|models|clusters|cmake|examples|include|docs'

while IFS= read -r page; do
  folder=$(dirname "$page")
  # [text](target), without the web and without anchors.
  while IFS= read -r target; do
    [[ -e $folder/$target ]] || { echo "$page: $target is no file"; wrong=1; }
  done < <(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -vE '^[a-z]+:' || true)
  # `src/...`, `tests/...`: a file, a folder, or a name without its ending.
  while IFS= read -r target; do
    compgen -G "$target" >/dev/null || compgen -G "$target.*" >/dev/null ||
      { echo "$page: $target is not there"; wrong=1; }
  done < <(grep -oE "\`($folders)/[A-Za-z0-9_./*-]*\`" "$page" |
             tr -d '`' | grep -vF src/kernels/scale/ | sort -u || true)
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sed 's#^\./##')

((wrong == 0)) && echo "pages point at what is there"
exit $wrong
