#!/usr/bin/env bash
# A store of servers as its users have it: text becomes tokens, a model and a checkpoint without a
# file of this machine; an empty folder joins; an empty disk is taken back. Then the script that
# measures a store runs once, as short as it can:
#   store_files_test.sh TRIREME SOURCE_DIR
set -u
trireme=$1
root=$2
work=$(mktemp -d)
servers=()
cleanup() {
  for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; done
  wait
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
export TRIREME_STORES=$work/stores
TRIREME_SECRET=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export TRIREME_SECRET
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
expect() {
  local code=$1
  shift
  "$trireme" "$@" >out 2>err </dev/null
  local got=$?
  [[ $got == "$code" ]] || { fail "exit $got instead of $code: trireme $*"; tail -n 5 err; }
}
said() { grep -qF -- "$1" err || { fail "not said: $1"; cat err; }; }
printed() { grep -qF -- "$1" out || { fail "not printed: $1"; head -n 20 out; }; }
# comes_true COMMAND...: within a minute.
comes_true() {
  for ((i = 0; i < 300; ++i)); do
    "$@" && return
    sleep 0.2
  done
  fail "has not come true: $*"
  "$trireme" store status demo
}
# serve NUMBER OPTIONS...: sets address[NUMBER]. The log of an earlier server is removed first: what
# that one said must not be taken for a word of this one.
serve() {
  local number=$1
  shift
  rm -f "log$number"
  "$trireme" store serve "d$number" "$@" 2>"log$number" &
  servers[number]=$!
  comes_true grep -qs " serves " "log$number"
  address[number]=$(sed -n 's/ serves .*//p' "log$number" | head -n 1)
}
incarnation_is() {
  "$trireme" store status demo --json | tr -d ' \n' |
    grep -qE "\"server\":\"$1\",[^}]*\"incarnation\":$2,[^}]*\"problem\":\"\""
}
is_healthy() { "$trireme" store status demo --json | grep -qF '"health": "healthy"'; }

mkdir d0 d1 d2 d3 d4
for number in 0 1 2 3; do serve "$number" --listen 127.0.0.1:0; done
expect 0 store create demo --code 2+1 \
  --servers "${address[0]},${address[1]},${address[2]},${address[3]}"

# ---- From text to a checkpoint within the store
for ((line = 0; line < 400; ++line)); do echo "Once there was line $line."; done >text
gzip -k text
expect 0 store put text.gz store://demo/text.gz
expect 0 tokenizer train store://demo/text.gz --vocab-size 300 --out store://demo/tokenizer.json
printed "store://demo/tokenizer.json: bpe tokenizer with 300 tokens"
expect 0 data prepare store://demo/text.gz --tokenizer store://demo/tokenizer.json \
  --out store://demo/data
printed "store://demo/data/train.tok: "
[[ ! -e outputs ]] || fail "a local copy of the result was left"
expect 0 store get store://demo/tokenizer.json tokenizer.json
expect 0 train "$root/configs/tiny-gpt2.toml" --out store://demo/first \
  --set data.source=files --set data.train=store://demo/data/train.tok \
  --set data.val=store://demo/data/val.tok --set data.tokenizer=tokenizer.json \
  --set model.vocab_size=0 --set run.steps=2 --set optim.warmup_steps=0
checkpoint=store://demo/first/checkpoints/step-000002
expect 0 checkpoint verify "$checkpoint"
printed "$checkpoint: all checksums match"
expect 0 checkpoint inspect "$checkpoint" --json
expect 0 eval "$checkpoint" store://demo/data/val.tok --json
expect 0 checkpoint export "$checkpoint" --format hf --out store://demo/hf
expect 0 store ls store://demo/hf
printed "model.safetensors"

# ---- An empty folder joins
serve 4 --listen 127.0.0.1:0 --join "${address[0]}"
comes_true incarnation_is "${address[4]}" 1

# ---- An empty disk is taken back by itself by a server that was started with --join
kill "${servers[3]}"
wait "${servers[3]}" 2>/dev/null
serve 3 --join "${address[0]}"
mv d3 gone
mkdir d3
comes_true incarnation_is s3 2
expect 0 store repair demo
comes_true is_healthy
expect 0 checkpoint verify "$checkpoint"

# ---- The figures
mkdir bench
WORK=$work/bench MIB=64 SMALL_FILES=20 ROUNDS=1 bash "$root/bench/store_bench.sh" \
  "$(dirname "$trireme")" >figures 2>errors
code=$?
((code <= 1)) || { fail "bench/store_bench.sh ends with $code"; cat errors; }
rows=$(grep -cE '^\| [^|]+ \| [0-9.e+-]+ \| [^|]+ \| (>=|<=) [0-9.]+ \| (yes|NO) \|$' figures)
[[ $rows == 6 ]] || { fail "$rows figures"; cat figures errors; }
grep -qE 'code 8\+3 \| 1\.375 .*\| yes' figures || { fail "no overhead of 1.375"; cat figures; }

((failures == 0)) && echo "ok"
exit "$failures"
