#!/usr/bin/env bash
# Tests files that are crafted to crash the program or to exhaust the machine: crafted_test.sh
# TRIREME SOURCE_DIR. Each must end with its exit code, within a deadline and within 1.5 GB of
# address space.
set -u
trireme=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
tiny=$root/configs/tiny-gpt2.toml
limit_kib=1500000
# Sanitizers reserve more address space than that.
(ulimit -v $limit_kib && "$trireme" --version >/dev/null 2>&1) || limit_kib=unlimited

# expect CODE TEXT ARGUMENTS...: checks the exit code and that standard error contains TEXT.
expect() {
  local code=$1 text=$2
  shift 2
  (ulimit -v $limit_kib && exec timeout 60 "$trireme" "$@") >out 2>err </dev/null
  local got=$?
  if [[ $got != "$code" ]] || { [[ -n $text ]] && ! grep -qF -- "$text" err; }; then
    echo "FAILED: exit $got instead of $code, or not said \"$text\": trireme $*"
    head -c 600 err
    failures=$((failures + 1))
  fi
}
# repeat N TEXT
repeat() { head -c "$1" /dev/zero | tr '\0' "$2"; }

{ repeat 40000 a | sed 's/a/a./g'; echo 'a = 1'; } >deep.toml
expect 2 "64 levels" config show deep.toml
expect 2 "64 levels" plan deep.toml
expect 2 "64 levels" plan "$tiny" --cluster deep.toml
expect 2 "" train "$tiny" --set "$(head -c 100000 deep.toml)=1"
head -c 3000000 /dev/zero >long.toml
expect 4 "at most" config show long.toml

mkfifo pipe pipe.safetensors pipe.gguf pipe.tok
expect 4 "regular file" config show pipe
expect 4 "regular file" plan "$tiny" --cluster pipe
expect 4 "regular file" data prepare pipe --tokenizer byte --out prepared
expect 4 "regular file" tokenizer train pipe --vocab-size 300 --out made.json
expect 4 "regular file" checkpoint import pipe.gguf --out imported
expect 4 "regular file" data inspect pipe.tok
mkdir piped && mkfifo piped/index.json
expect 4 "regular file" checkpoint verify piped
expect 4 "regular file" generate --checkpoint piped -p a -n 1

repeat 50000000 '[' >tokenizer.json
expect 4 "deeper than 64" tokenizer encode --tokenizer tokenizer.json tokenizer.json
repeat 300000000 ' ' | gzip >bomb.txt.gz
expect 4 "256 times" data prepare bomb.txt.gz --tokenizer byte --out prepared
# This frame declares a window of 2 GiB.
printf '\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00' >window.txt.zst
expect 4 "128 MiB" data prepare window.txt.zst --tokenizer byte --out prepared

expect 3 "parameters" plan "$tiny" --set model.d_model=1000000 --set model.heads=1000
expect 2 "model.layers" plan "$tiny" --set model.layers=65535
expect 2 "model.seq_len" plan "$tiny" --set model.seq_len=2000000000
expect 0 "" plan "$tiny" --set model.layers=1000

# A run with deeply nested files: its report is made, and it resumes.
expect 0 "" train "$tiny" --set run.steps=1 --set run.threads_per_rank=1 --out run

{ cat run/metrics.jsonl; repeat 100000 '['; echo; } >lines && mv lines run/metrics.jsonl
repeat 100000 '[' >run/ranks.json
repeat 100000 '{' >run/summary.json
expect 0 "" report run
[[ -s run/report.html ]] || { echo "FAILED: no report"; failures=$((failures + 1)); }
expect 0 "" train "$tiny" --set run.steps=2 --set run.threads_per_rank=1 --out run --resume auto

# An index of 262,145 tensors, and one of 32,000 tensors with a duplicate name.
header() {
  seq 0 "$1" | awk 'BEGIN { printf "{" }
    { printf "\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]},",
             $1, $1, $1 + 1 }
    END { printf "\"t5\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}" }' >json
  local bytes
  bytes=$(stat -c %s json)
  printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' \
    $((bytes & 255)) $((bytes >> 8 & 255)) $((bytes >> 16 & 255)) $((bytes >> 24)))"
  printf '\0\0\0\0'
  cat json
  head -c $(($1 + 1)) /dev/zero
}
mkdir hf
printf '{"model_type":"gpt2","n_layer":2,"n_embd":8,"n_head":2,"vocab_size":5,"n_positions":4}' \
  >hf/config.json
header 32000 >hf/model.safetensors
expect 4 "twice" checkpoint import hf --out imported
header 300000 >hf/model.safetensors
expect 4 "more than 262144 tensors" checkpoint import hf --out imported

((failures == 0)) || exit 1
