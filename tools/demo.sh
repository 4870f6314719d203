#!/usr/bin/env bash
# Trains on real text: the King James Bible and Jane Austen's novels from Debian's packages. It
# makes a tokenizer and token files, trains for about five minutes and generates text. DEMO_LARGE=1
# adds Webster's dictionary of 1913.
set -euo pipefail
cd "$(dirname "$0")/.."
trireme=build/trireme
text=demo/text
mkdir -p "$text"

# Prints the command, then runs it, so that everybody can type the same.
say() {
  printf '\n$ %s\n' "$*" >&2
  "$@"
}

if [[ ! -s $text/kjv.txt ]]; then
  bible -f 'gen1:1-rev22:21' </dev/null | cut -d' ' -f2- >"$text/kjv.tmp"
  mv "$text/kjv.tmp" "$text/kjv.txt"
fi
if [[ ! -s $text/austen.txt ]]; then
  Rscript -e 'cat(janeaustenr::austen_books()$text, sep = "\n")' >"$text/austen.tmp"
  mv "$text/austen.tmp" "$text/austen.txt"
fi
if [[ ${DEMO_LARGE:-} == 1 && ! -s $text/webster.txt ]]; then
  zcat /usr/share/dictd/gcide.dict.dz | iconv -c -f cp1252 -t utf-8 |
    sed -E '/^ *\[[^]]*(Webster|PJC|WordNet|Century)[^]]*\]$/d' >"$text/webster.tmp"
  mv "$text/webster.tmp" "$text/webster.txt"
fi
wc -c "$text"/*.txt

# Another choice of text needs new tokens.
files=$(cd "$text" && echo *.txt)
if [[ $(cat demo/files 2>/dev/null) != "$files" ]]; then
  rm -rf demo/data demo/tokenizer.json demo/run
  echo "$files" >demo/files
fi
[[ -s demo/tokenizer.json ]] ||
  say $trireme tokenizer train "$text" --vocab-size 4096 --out demo/tokenizer.json
[[ -s demo/data/train.tok && -s demo/data/val.tok ]] ||
  say $trireme data prepare "$text" --tokenizer demo/tokenizer.json --out demo/data
# The validation losses that counting alone reaches.
say $trireme data inspect demo/data/val.tok --baselines demo/data/train.tok

# A finished run is replaced by a new one; an interrupted one resumes with the same number of steps.
grep -q '"finished"' demo/run/summary.json 2>/dev/null && rm -rf demo/run demo/steps
if [[ ! -s demo/steps ]]; then
  # As many steps as take five minutes, but enough to learn: a CPU without AVX-512 takes longer.
  speed=$($trireme bench train configs/demo.toml --json |
          sed -nE 's/.*"tokens_per_s": ?([0-9.]+).*/\1/p')
  awk -v speed="$speed" -v tokens=$((8 * 256)) 'BEGIN {
    steps = int(300 * speed / tokens / 100) * 100
    print (steps < 800 ? 800 : (steps > 2400 ? 2400 : steps))
  }' >demo/steps
fi
say $trireme train configs/demo.toml --set run.steps="$(<demo/steps)" --out demo/run --resume auto

say $trireme generate --checkpoint demo/run -p 'It is a truth universally acknowledged, that' \
  -n 120 --temp 0.8 --seed 1
echo
echo "The run is in demo/run: report.html opens in a browser, metrics.jsonl has every step." >&2
