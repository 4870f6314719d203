#!/usr/bin/env bash
# Checks the pages: links and source paths in back quotes must exist, and the terms of the glossary
# must be unique and sorted, each with one sentence.
set -euo pipefail
cd "$(dirname "$0")/.."
wrong=0
folders='src|tests|tools|fuzz|bench|configs|models|clusters|failures|cmake|examples|include|docs'

while IFS= read -r page; do
  folder=$(dirname "$page")
  # [text](target), without the web, without anchors and without blocks of code.
  while IFS= read -r target; do
    [[ -e $folder/$target ]] || { echo "$page: the link target $target does not exist"; wrong=1; }
  done < <(awk '/^```/ { is_code = !is_code } !is_code' "$page" |
             grep -oE '\]\([^)# ]+' | sed 's/^](//' | grep -vE '^[a-z]+:' || true)
  # `src/...`, `tests/...`: a file, a folder, or a name without its ending.
  while IFS= read -r target; do
    compgen -G "$target" >/dev/null || compgen -G "$target.*" >/dev/null ||
      { echo "$page: the path $target does not exist"; wrong=1; }
  done < <(grep -oE "\`($folders)/[A-Za-z0-9_./*-]*\`" "$page" |
             tr -d '`' | sort -u || true)
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sed 's#^\./##')

# A row is "* **term**: One sentence."; a full stop inside a sentence is followed by no space.
glossary=docs/glossary.md
terms=$(sed -nE 's/^\* \*\*([^*]+)\*\*: .*/\1/p' "$glossary")
LC_ALL=C sort --check --ignore-case <<<"$terms" ||
  { echo "$glossary: the terms are not sorted"; wrong=1; }
repeated=$(sort --ignore-case <<<"$terms" | uniq --ignore-case --repeated)
[[ -z $repeated ]] || { echo "$glossary: more than one entry for: $repeated"; wrong=1; }
not_one_sentence=$(grep '^\*' "$glossary" |
  grep -vE '^\* \*\*[^*]+\*\*: [A-Z]([^.]|\.[^ ])*\.$' || true)
[[ -z $not_one_sentence ]] || { echo "$glossary: not one sentence: $not_one_sentence"; wrong=1; }

((wrong == 0)) && echo "links and source paths in the pages exist; the glossary is sorted"
exit $wrong
