#!/usr/bin/env bash
# A model that cannot fit is refused at once, whatever its size: refusal_test.sh TRIREME SOURCE_DIR
set -u
trireme=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
most_cpu_s=0.5
most_kib=204800  # of address space, of which resident memory is a part

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# refused_by COMMAND MODEL MEMORY_LIMIT [OPTIONS]: exit code 3 within the bounds.
TIMEFORMAT='%U %S'
refused_by() {
  local command=$1 model=$2 limit=$3 code cpu_s
  shift 3
  { time (ulimit -v $most_kib
          "$trireme" "$command" "$root/configs/tiny-gpt2.toml" --set "model.preset=$model" \
            --set "memory.limit_bytes=$limit" --set run.threads_per_rank=1 "$@" >out 2>err
          exit $?); } 2>times
  code=$?
  cpu_s=$(awk '{print $1 + $2}' times)
  echo "$command $model $limit $*: $cpu_s s"
  [[ $code == 3 ]] || { fail "$command $model: exit $code instead of 3"; tail -n 3 err; }
  grep -q 'needs\|parameters' err || { fail "$command $model: no reason"; cat err; }
  awk "BEGIN {exit !($cpu_s <= $most_cpu_s)}" || fail "$command $model $*: $cpu_s s of CPU time"
}
refused() { refused_by train "$@" --out none; }

for model in llama2-7b gpt3-175b llama3-405b mixtral-8x7b deepseek-v3 kimi-k2 megatron-1008b; do
  refused $model 4000000000
  sed 's/^error: trireme train: //' err >refusal
  refused_by plan $model 4000000000  # before the machine is measured
  sed 's/^error: trireme plan: //' err | diff refusal - || fail "plan $model: another reason"
done
refused_by plan llama3-405b 4000000000 --explain
refused gpt2-1.5b 7000000000  # the gradients fit, but not the state of the optimizer beside them
refused gpt2-1.5b 7000000000 --set memory.recompute=fit
refused gpt3-175b 4000000000 --set memory.recompute=fit
refused gpt3-175b 4000000000 --set parallel.pp=8 --set parallel.tp=8 \
  --set batch.global_sequences=64 --set parallel.schedule=auto --set memory.recompute=fit
# The gradients of a rank fit, but not its optimizer state: no schedule is searched.
for limit in 2500000000 3000000000 5000000000; do
  refused gpt2-1.5b $limit --set parallel.pp=4 --set batch.global_sequences=16 \
    --set parallel.schedule=auto
done
grep -q 'optimizer .* Cheapest change that fits: --set' err || { fail "no remedy"; cat err; }
[[ ! -e none ]] || fail "a refused run has a folder"

((failures == 0)) && echo "all refusals are fast"
exit $((failures > 0))
