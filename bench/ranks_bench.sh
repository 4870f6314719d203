#!/usr/bin/env bash
# What ranks cost on one machine, in turns, as medians of several rounds, as tables in Markdown:
# layouts of two ranks with one thread each beside one rank with two, for a step of few tokens and
# one of many, the bubble of pipelines beside the simulator's, and one long sequence shared by two
# ranks.
#   bench/ranks_bench.sh BUILD_DIR [few_tokens|many_tokens|pipelines|context]...
# ROUNDS (3) and ISA (auto) may be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
trireme=${1:-build/release}/trireme
shift || true
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(few_tokens many_tokens pipelines context)
rounds=${ROUNDS:-3}
isa=${ISA:-auto}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {if (NR) print v[int((NR + 1) / 2)]}'; }
calc() { awk "BEGIN {printf \"$1\", ($2)}"; }
field() { sed -nE "s/.*\"$1\": ?\"?([^,}\"]*).*/\1/p" <<<"$2"; }

# Means over the ranks of a run, in percent of the step: exposed communication and bubble as
# measured, the same as predicted, and the idle time that each pair adds up to; one line.
shares() {
  tr -d ' \n' <"$1/summary.json" |
    grep -oE '"(predicted|measured)":\{"compute":[^}]*\}' |
    sed -E 's/"(predicted|measured)":\{"compute":[^,]*,"exposed_comm":([^,]*),/\1 \2 /' |
    sed -E 's/"bubble":([^,]*),"step":([^,}]*).*/\1 \2/' |
    awk '$4 > 0 {n[$1]++; exposed[$1] += 100 * $2 / $4; bubble[$1] += 100 * $3 / $4}
         END {
           for (kind in n) { exposed[kind] /= n[kind]; bubble[kind] /= n[kind] }
           printf "%.1f %.1f %.1f %.1f %.1f %.1f\n", exposed["measured"], bubble["measured"],
             exposed["predicted"], bubble["predicted"], exposed["measured"] + bubble["measured"],
             exposed["predicted"] + bubble["predicted"]
         }'
}

# One NAME with its options per line; every round runs them all. The folder of a run is
# $runs/NAME.ROUND.
run_all() {
  local config=$1 cases=$2 round name options set sets
  for ((round = 0; round < rounds; ++round)); do
    while read -r name options; do
      sets=(--set run.isa="$isa")
      for set in $options; do sets+=(--set "$set"); done
      "$trireme" train "$config" "${sets[@]}" --out "$runs/$name.$round" >/dev/null 2>&1 ||
        echo "$name: $("$trireme" train "$config" "${sets[@]}" \
                        --out "$runs/$name.failed" 2>&1 | tail -1)" >&2
    done <<<"$cases"
  done
}

# Prints the median over the rounds of column C of `shares`, or of a key of summary.json.
share_of() { for f in "$runs/$1".[0-9]*; do shares "$f" | cut -d' ' -f"$2"; done | median; }
rate_of() {
  for f in "$runs/$1".[0-9]*; do
    field tokens_per_s "$(tr -d '\n' <"$f/summary.json" | sed 's/"ranks".*//')"
  done | median
}

head_line() {
  local processor commit
  processor=$(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -1)
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo none)
  echo "$1, $(date -u +%Y-%m-%d), $processor, run.isa=$isa, commit $commit, $rounds rounds in turns"
  echo
}

# TITLE CONFIG CASES HEADINGS COLUMN...: prints a row for each case with its rate, its rate relative
# to `one`, and columns of `shares`, or the options themselves.
compare() {
  local title=$1 config=$2 cases=$3 headings=$4 base rate name options column
  shift 4
  run_all "$config" "$cases"
  head_line "$title"
  echo "$headings"
  sed -E 's/[^|]+/---/g' <<<"$headings"
  base=$(rate_of one)
  while read -r name options; do
    rate=$(rate_of "$name")
    printf '| %s | %s | %s |' "$name" "$(calc '%.0f' "$rate")" "$(calc '%.3f' "$rate / $base")"
    for column in "$@"; do
      if [[ $column == options ]]; then
        printf ' %s |' "$options"
      else
        printf ' %s %% |' "$(share_of "$name" "$column")"
      fi
    done
    echo
  done <<<"$cases"
  echo
}

# SHAPE CONFIG MICRO_SEQUENCES: the last is half of the sequences of a step, for ranks of dp = 2.
compare_layouts() {
  local two='run.threads_per_rank=1 run.steps=7'
  local dp="$two parallel.dp=2 batch.micro_sequences=$3"
  compare "Layouts at $1, two ranks of one thread beside one rank of two" "$2" "one run.steps=7
layout run.steps=7 run.reproducible=layout
ddp $dp
ddp-layout $dp run.reproducible=layout
zero1 $dp parallel.zero=1
zero2 $dp parallel.zero=2
zero3 $dp parallel.zero=3
tp $two parallel.tp=2
tp-overlap $two parallel.tp=2 parallel.tp_overlap=true
tp-sp $two parallel.tp=2 parallel.sequence=true
tp-sp-overlap $two parallel.tp=2 parallel.sequence=true parallel.tp_overlap=true
cp $two parallel.cp=2" \
    '| layout | tokens/s | beside one rank | waiting for transfers | options |' 1 options
}
few_tokens() { compare_layouts 'gpt2-124m, 4 x 64 tokens' configs/bench-gpt2-124m-4x64.toml 2; }
many_tokens() { compare_layouts '6 x 384, 8 x 256 tokens' configs/bench-6x384-8x256.toml 4; }

pipelines() {
  local two='run.threads_per_rank=1 parallel.pp=2'
  compare 'Pipelines of two stages of one thread beside one rank of two, four micro-batches' \
    configs/bench-pipeline.toml "one
gpipe $two parallel.schedule=gpipe
1f1b $two parallel.schedule=1f1b
interleaved $two parallel.schedule=interleaved parallel.chunks=2
zb_h1 $two parallel.schedule=zb_h1
zb_h2 $two parallel.schedule=zb_h2
zb_v $two parallel.schedule=zb_v parallel.chunks=2" \
    '| schedule | tokens/s | beside one rank | idle, measured | idle, simulated '\
'| of it bubble | |' \
    5 6 2 4
}

context() {
  local sequence='model.seq_len=16384 model.layers=1 model.d_model=128 model.heads=2'
  sequence+=' model.kv_heads=2 model.d_ff=256'
  local run="$sequence batch.global_sequences=1 run.steps=4 run.eval_every=0"
  local two="$run run.threads_per_rank=1 parallel.cp=2"
  compare 'One sequence of 16,384 tokens, two ranks of one thread beside one rank of two' \
    configs/tiny-llama.toml "one $run run.threads_per_rank=2
ring $two
all_to_all $two parallel.context=all_to_all" \
    '| attention | tokens/s | beside one rank | waiting for transfers |' 1
}

for part in "${parts[@]}"; do "$part"; done
