#!/usr/bin/env bash
# A run beside processes that keep every core busy is honest about it: MFU is never above 100 %, the
# load of others is measured and said, the ceiling is that of the machine and not of what others
# have left of it, and the hardware file of the run prices the next one.
# Usage: busy_machine_test.sh TRIREME SOURCE
set -uo pipefail
trireme=$1
configs=$2/configs
folder=$(mktemp -d)
loops=()
trap 'for loop in "${loops[@]}"; do kill "$loop" 2>/dev/null; done; rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

cores=$(nproc)
train() {
  "$trireme" train "$configs/tiny-gpt2.toml" --set run.steps=150 \
    --set run.threads_per_rank="$cores" --set batch.global_sequences=16 \
    --set batch.micro_sequences=8 --set model.d_model=128 "${@:2}" --out "$folder/$1" \
    >"$folder/$1.out" 2>"$folder/$1.log" ||
    fail "$1: $(tail -n 3 "$folder/$1.log")"
}
key() { sed -nE "s/^  \"$2\": *([^,]*),?\$/\1/p" "$folder/$1/summary.json"; }
# holds EXPRESSION TEXT: both may have numbers with exponents.
holds() { awk "BEGIN { exit !($1) }" || fail "$2: $1"; }

train calm
for ((i = 0; i < cores; i++)); do
  while :; do :; done &
  loops+=($!)
done
train busy
for loop in "${loops[@]}"; do kill "$loop"; done
loops=()

for run in calm busy; do
  most=$(grep -oE '"mfu":[0-9.e+-]+' "$folder/$run/metrics.jsonl" | cut -d: -f2 | sort -g | tail -1)
  holds "$most > 0 && $most <= 1" "the greatest MFU of a step of the $run run"
  holds "$(key $run mfu) > 0 && $(key $run mfu) <= 1" "the MFU of the $run run"
  while read -r shown; do
    holds "$shown <= 100" "a shown MFU of the $run run"
  done < <(grep -ohE 'MFU [0-9.]+%' "$folder/$run.log" "$folder/$run.out" | tr -d 'MFU %')
done

# With a loop on every core, others have about half of them.
taken=$(key busy cores_taken_by_others)
holds "$taken > 0.2 && $taken < 1" "the share of the cores that others took"
grep -qE 'others took [1-9][0-9] % of the cores, so with all of them it would take' \
  "$folder/busy.log" || fail "the load of others is not said: $(tail -n 3 "$folder/busy.log")"
holds "$(key busy step_s_undisturbed) < 0.9 * $(key busy step_s)" "the time left to the run"

# The ceiling comes from the fastest calls, which others have not interrupted.
holds "$(key busy peak_flops) > 0.6 * $(key calm peak_flops)" "the ceiling beside a busy machine"
if grep -q peak_flops_raised_at_step "$folder/busy/summary.json"; then
  grep -q 'The ceiling was raised' "$folder/busy.log" || fail "it is not said that it was raised"
fi

# The hardware file of a run prices the next one like the steps that the run has made.
[[ -s $folder/busy/hardware.toml ]] || fail "there is no hardware.toml"
"$trireme" plan "$folder/busy/config.resolved.toml" --cluster "$folder/busy/hardware.toml" --json \
  >"$folder/plan.json" 2>"$folder/log" || fail "plan: $(<"$folder/log")"
priced=$(sed -nE 's/^  "step_s": *([^,]*),?$/\1/p' "$folder/plan.json")
[[ -n $priced ]] || priced=$(sed -nE 's/^  "step": *([^,]*),?$/\1/p' "$folder/plan.json")
holds "$priced > 0.5 * $(key busy step_s_undisturbed) && $priced < 2 * $(key busy step_s)" \
  "the step that is priced by the hardware file"
train again --set run.hardware="$folder/busy/hardware.toml"
grep -q 'this machine, as a run has found it' "$folder/again/summary.json" ||
  fail "the next run is not priced by the hardware file"
exit $failed
