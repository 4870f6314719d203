#!/bin/bash
# Trains on 65,536 tokens in one sequence: one rank is refused by a memory limit, two ranks train
# within it. The command is that of docs/context_parallelism.md.
set -u
trireme=$1
source_folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
limit=167772160

train() {
  "$trireme" train "$source_folder/configs/tiny-llama.toml" --set model.seq_len=65536 \
    --set model.layers=1 --set model.d_model=32 --set model.heads=2 --set model.kv_heads=1 \
    --set model.d_ff=64 --set batch.global_sequences=1 --set run.steps=2 --set run.eval_every=0 \
    --set memory.limit_bytes=$limit "$@"
}

train --out "$work/one" 2> "$work/refusal"
code=$?
[ $code -eq 3 ] || { echo "one rank ended with $code instead of 3"; cat "$work/refusal"; exit 1; }

train --set parallel.cp=2 --set run.threads_per_rank=1 --out "$work/two" > "$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
peaks=$(tr -d ' \n' < "$work/two/summary.json" | grep -o '"peak":[0-9]*' | cut -d: -f2 | sort -u)
[ "$(echo "$peaks" | wc -l)" -eq 1 ] ||
  { echo "planned and measured peaks differ: $peaks"; exit 1; }
[ "$peaks" -le $limit ] || { echo "a rank took $peaks bytes"; exit 1; }
echo "one rank is refused, two take $peaks bytes each"
