#!/usr/bin/env bash
# The folder of a run is moved away while it trains: it says so, makes its folder again, continues,
# and has the numbers of a run that nobody has disturbed. It also survives the loss of its first
# rank, which then resumes from memory.
# Usage: lost_folder.sh TRIREME CONFIGS
set -uo pipefail
trireme=$(realpath "$1")
configs=$(realpath "$2")
. "$(dirname "$0")/job_folder.sh"
steps=200
config=("$configs/tiny-gpt2.toml" --set run.threads_per_rank=1 --set run.reproducible=layout
        --set run.steps=$steps --set model.layers=2 --set batch.global_sequences=64
        --set checkpoint.every=20 --set checkpoint.keep=2)
told() {
  grep -q "$1 was moved or removed .* in a new folder" "$folder/log" || fail "$1: not told"
}
# ends OUT: the run has ended well, with all records and its last checkpoint.
ends() {
  wait $job
  local code=$?
  [[ $code == 0 ]] || fail "$1: exit code $code"
  told "$1"
  cmp -s <(numbers calm) <(numbers "$1") || fail "$1: other numbers"
  [[ -e $1/summary.json && -d $1/checkpoints/step-$(printf %06d $steps) ]] || fail "$1: no end"
  [[ -e $1.moved/checkpoints ]] || fail "$1: nothing is left in the moved folder"
}
cd "$folder"
"$trireme" train "${config[@]}" --out calm 2>log || fail "the run that nobody has disturbed"

"$trireme" train "${config[@]}" --out single 2>>log &
job=$!
reaches 60 single
mv single single.moved
ends single

"$trireme" launch "${config[@]}" --ranks 2 --set checkpoint.memory_every=1 --out job 2>>log &
job=$!
reaches 60 job
mv job job.moved
reaches 80 job
first='"rank":0,"host":"[^"]*","pid":[0-9]+'
until_has "$first" "$trireme" status job --json  # the new folder has the status after a while
pid=$("$trireme" status job --json | grep -oE "$first" | grep -oE '[0-9]+$')
kill -KILL "$pid" || fail "rank 0 was not killed"
ends job
grep -q '"from":"memory"' <(restart job) || fail "the restart: $(restart job)"
((failed == 0)) || cat log
exit $failed
