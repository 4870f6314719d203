#!/usr/bin/env bash
# A batch that fails each time. The run names its samples and ends. With run.skip_bad_batches = true
# it resumes without them, and its numbers are those of a run that leaves them out from the start.
# Usage: bad_batch.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"

# In a file above 64 MiB, chunks are verified when they are read, so the run finds the damage. Of
# the first 140 samples, only number 55 lies in chunk 73. ASCII in UTF-16 gives tokens of two bytes.
seq 1 5000000 | head -c 34000000 | iconv -f ASCII -t UTF-16LE >"$folder/tokens.bin"
mkdir "$folder/good" "$folder/bad"
"$trireme" data import "$folder/tokens.bin" --tokenizer byte --out "$folder/good/train.tok" \
  >/dev/null 2>&1 || fail "the data"
cp "$folder/good/train.tok" "$folder/bad"
printf '\xee' | dd of="$folder/bad/train.tok" bs=1 seek=$((64 + 73 * 65536 + 12345)) conv=notrunc \
  2>/dev/null
run=("$trireme" launch "$configs/tiny-gpt2.toml" --ranks 2 --set run.threads_per_rank=1
     --set checkpoint.every=5 --set run.reproducible=layout --set run.steps=30
     --set batch.global_sequences=4 --set model.vocab_size=512 --set data.source=files)
good=(--set data.train="$folder/good/train.tok")
bad=(--set data.train="$folder/bad/train.tok")
key() { grep -oE "\"$2\":[^,}]*" <<<"$1" | head -1 | cut -d: -f2; }

"${run[@]}" "${bad[@]}" --out "$folder/ends" 2>"$folder/log"
[[ $? == 4 ]] || fail "exit code of a run with damaged tokens"
grep -q 'it came with the samples [0-9]* to [0-9]*, and run.skip_bad_batches = true' \
  "$folder/log" || fail "the samples are not named: $(tail -1 "$folder/log")"

"${run[@]}" "${bad[@]}" --set run.skip_bad_batches=true --out "$folder/skips" 2>"$folder/log" ||
  fail "the run that leaves samples out: $(tail -3 "$folder/log")"
skip=$(grep '"event":"skip"' "$folder/skips/metrics.jsonl")
first=$(key "$skip" first_sample)
[[ $first == 52 && $(key "$skip" samples) == 4 ]] || fail "it leaves out: $skip"
grep -q "samples $first to $((first + 3)) are left out" "$folder/log" ||
  fail "the user is not told: $(cat "$folder/log")"
[[ $(grep -c '"event":"failure"' "$folder/skips/metrics.jsonl") == 2 ]] ||
  fail "failures: $(grep -c '"failure"' "$folder/skips/metrics.jsonl")"
failure=$(grep '"event":"failure"' "$folder/skips/metrics.jsonl" | tail -1)
[[ $(key "$failure" first_sample) == "$first" && $(key "$failure" left_out) == true ]] ||
  fail "the failure: $failure"
grep -q '"left_out": true' "$folder"/skips/failures/002/evidence.json ||
  fail "the evidence does not say that samples are left out"
grep -q '"left_out_samples": 4' "$folder/skips/summary.json" || fail "the summary"
grep -q "samples $first to $((first + 3))" <("$trireme" failures "$folder/skips") ||
  fail "trireme failures does not name the samples"

# A run of one rank on the undamaged file, without the same samples.
"${run[@]}" "${good[@]}" --ranks 1 --set run.skip_samples="$first-$((first + 3))" \
  --out "$folder/told" 2>"$folder/log" || fail "the run that was told"
cmp -s <(numbers skips) <(numbers told) || fail "another run than the one that was told"
"${run[@]}" "${good[@]}" --out "$folder/all" 2>"$folder/log"
cmp -s <(numbers skips) <(numbers all) && fail "the samples made no difference"
exit $failed
