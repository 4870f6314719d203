#!/usr/bin/env bash
# Measures what a team of threads loses on a machine that another process uses, too: training and
# decoding with one thread and with one thread for each core, while a process keeps one core busy.
# They take turns; medians. With all threads, the speed is at least 0.95 of that with one.
# By hand, on a machine that nobody else uses. Usage: busy_bench.sh BUILD_DIR [ROUNDS] [SHAPE...]
set -euo pipefail
cd "$(dirname "$0")/.."
trireme=$1/trireme
rounds=${2:-5}
shapes=("${@:3}")
((${#shapes[@]} > 0)) || shapes=(tiny-gpt2 bench-nano-char-12x64 bench-6x384-8x256)
all=$(nproc)
folder=$(mktemp -d)
others=()
clean() {
  ((${#others[@]} == 0)) || kill "${others[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean EXIT
failed=0

median() {
  sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'
}
keep_a_core_busy() { while :; do :; done & others+=($!); }
release_the_core() { kill "${others[@]}"; wait "${others[@]}" 2>/dev/null || true; others=(); }

# train SHAPE THREADS: tokens/s
train() {
  "$trireme" bench train "configs/$1.toml" --set run.threads_per_rank="$2" --json 2>/dev/null |
    sed -nE 's/.*"tokens_per_s": ?([0-9.]+).*/\1/p' | head -1
}
# decode SHAPE THREADS: tokens/s after the first one
decode() {
  "$trireme" generate "$folder/$1" -p 'The ' -n 8000 --temp 0 -t "$2" 2>&1 >/dev/null |
    sed -nE 's/.* drawn after .*: ([0-9.]+)(k?) tokens.*/\1 \2/p' |
    awk '{print $1 * ($2 == "k" ? 1000 : 1)}'
}

# compare WHAT SHAPE: all threads beside one, without and with another process.
compare() {
  local other threads ratio
  for other in none one; do
    rm -f "$folder"/[0-9]*.speeds
    [[ $other == none ]] || keep_a_core_busy
    for ((round = 0; round < rounds; round++)); do
      for threads in 1 "$all"; do "$1" "$2" "$threads" >>"$folder/$threads.speeds"; done
    done
    [[ $other == none ]] || release_the_core
    ratio=$(awk "BEGIN {print $(median <"$folder/$all.speeds") / $(median <"$folder/1.speeds")}")
    printf '%s %s, other processes: %s: 1 thread %.0f tokens/s, %d threads %.0f: %.2f' "$1" "$2" \
      "$other" "$(median <"$folder/1.speeds")" "$all" "$(median <"$folder/$all.speeds")" "$ratio"
    if [[ $other == one ]] && awk "BEGIN {exit !($ratio < 0.95)}"; then
      printf ' FAILED: below 0.95'
      failed=1
    fi
    printf '\n'
  done
}

"$trireme" data prepare README.md --tokenizer byte --out "$folder/data" >/dev/null 2>&1
for shape in "${shapes[@]}"; do
  compare train "$shape"
  "$trireme" train "configs/$shape.toml" --set run.steps=3 --set checkpoint.at_end=true \
    --set data.source=files --set data.train="$folder/data/train.tok" \
    --set data.tokenizer="$folder/data/tokenizer.json" --set model.vocab_size=0 \
    --out "$folder/$shape" >/dev/null 2>&1
  compare decode "$shape"
done
exit $failed
