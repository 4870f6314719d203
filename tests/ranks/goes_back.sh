#!/usr/bin/env bash
# Weights of 1e30 in a checkpoint with right checksums make every run fail that resumes from it.
# The job tries this checkpoint twice, goes back to an older one, and ends with the numbers of a run
# without the bad one. If that does not help, it ends with a diagnosis.
# Usage: goes_back.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"

steps=60
run=("$trireme" launch "$configs/tiny-gpt2.toml" --ranks 2 --set run.threads_per_rank=1
     --set run.reproducible=layout --set run.steps=$steps --set batch.global_sequences=4
     --set model.layers=1 --set checkpoint.every=10 --set checkpoint.keep=9)
key() { grep -oE "\"$2\":[^,}]*" <<<"$1" | head -1 | cut -d: -f2; }

"${run[@]}" --out "$folder/calm" 2>"$folder/log" || fail "the calm run: $(<"$folder/log")"
# A step with a learning rate of 1e30 leaves such weights.
"${run[@]}" --out "$folder/first" --set run.stop_after=20 2>"$folder/log"
cp -r "$folder/first" "$folder/poison"
"${run[@]}" --out "$folder/poison" --resume auto --set run.stop_after=21 --set optim.lr=1e30 \
  2>"$folder/log"
poison=$folder/poison/checkpoints/step-000021
"$trireme" checkpoint verify "$poison" >/dev/null || fail "the bad checkpoint is damaged"

cp -r "$folder/first" "$folder/back"
cp -r "$poison" "$folder/back/checkpoints"
"${run[@]}" --out "$folder/back" --resume auto 2>"$folder/log" ||
  fail "the run that goes back: $(<"$folder/log")"
cmp -s <(numbers calm) <(numbers back) || fail "it ends with other numbers"
weights() {
  "$trireme" checkpoint export "$folder/$1/checkpoints/step-0000$steps" --format hf \
    --out "$folder/weights-of-$1" >/dev/null 2>&1
  sha256sum <"$folder/weights-of-$1/model.safetensors"
}
[[ $(weights calm) == "$(weights back)" ]] || fail "it ends with other weights"
cmp -s "$poison/index.json" "$folder/back/checkpoints/wrong-step-000021/index.json" ||
  fail "the bad checkpoint is not set aside: $(ls "$folder/back/checkpoints")"
mapfile -t failures < <(grep '"event":"failure"' "$folder/back/metrics.jsonl")
((${#failures[@]} == 2)) || fail "${#failures[@]} failures"
[[ $(key "${failures[0]}" goes_back_to) == "" && $(key "${failures[1]}" goes_back_to) == 20 ]] ||
  fail "the failures: ${failures[*]}"
grep -q '"why_back":"it has failed twice in the same way after step' <<<"${failures[1]}" ||
  fail "the reason: ${failures[1]}"
restart=$(grep '"event":"restart"' "$folder/back/metrics.jsonl" | tail -1)
[[ $(key "$restart" step) == 20 ]] || fail "it goes back to: $restart"
grep -q 'it goes back to a checkpoint of step 20 or earlier, because it has failed twice' \
  "$folder/log" || fail "the user is not told why: $(<"$folder/log")"
grep -q 'the run goes back to step 20, .*set aside: .*wrong-step-000021' "$folder/log" ||
  fail "the user is not told what is set aside: $(<"$folder/log")"
grep -q 'went back .*step 20 or earlier, because it has failed twice' \
  <("$trireme" failures "$folder/back") || fail "trireme failures does not tell it"
grep -A4 '"went_back"' "$folder/back/summary.json" | grep -q '"to_step": 20' ||
  fail "the summary does not tell it"
grep -q '"goes_back_to": *20' "$folder"/back/failures/002/evidence.json || fail "the evidence"

# The older one is bad, too: the job goes back once and then ends.
"${run[@]}" --out "$folder/older" --resume "$folder/first/checkpoints/step-000010" \
  --set run.stop_after=11 --set optim.lr=1e30 2>"$folder/log"
mkdir -p "$folder/both/checkpoints"
cp -r "$poison" "$folder/older/checkpoints/step-000011" "$folder/both/checkpoints"
"${run[@]}" --out "$folder/both" --resume auto 2>"$folder/log"
[[ $? == 5 ]] || fail "exit code of a run whose older checkpoint is bad, too"
grep -q 'the run ends, because it has failed .*gone back to an older checkpoint before' \
  "$folder/log" || fail "the end after going back: $(tail -3 "$folder/log")"
exit $failed
