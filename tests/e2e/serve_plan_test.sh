#!/bin/bash
# Serves a planned pipeline on this machine: workers of a small and a large model answer prompts
# from a queue with `trireme generate`. Their speeds are measured, serve-plan says how many workers
# each model needs, and the promised rate must be held by these.
set -u
trireme=$1
source_folder=$2
work=$(mktemp -d)
workers=()
stop_workers() { ((${#workers[@]} == 0)) || kill "${workers[@]}" 2>/dev/null; }
trap 'stop_workers; wait; rm -rf "$work"' EXIT
cd "$work" || exit 1

prompts=40
to_large=5  # every fifth prompt goes on to the large model
fail() { echo "$*"; exit 1; }

for line in $(seq 200); do echo "Once there was line $line."; done > text.txt
"$trireme" data prepare text.txt --tokenizer byte --out data > log 2>&1 || fail "$(cat log)"
train() {  # NAME LAYERS WIDTH
  "$trireme" train "$source_folder/configs/tiny-gpt2.toml" --set data.source=files \
    --set data.train=data/train.tok --set data.val=data/val.tok --set model.vocab_size=0 \
    --set model.layers="$2" --set model.d_model="$3" --set run.steps=2 --out "$1" > log 2>&1 ||
    fail "$(cat log)"
}
train small 2 64
train large 6 256

answer() {  # MODEL PROMPT_FILE ANSWER_FILE
  "$trireme" generate "$1" --file "$2" -n 24 --threads 1 --seed 1 > "$3.part" 2>/dev/null &&
    mv "$3.part" "$3"
}

# Answers per second of one worker, while another one works beside it.
measure() {  # MODEL
  echo "Once there was" > probe
  local begin end
  begin=$(date +%s.%N)
  for side in a b; do
    for i in 1 2 3 4 5 6; do answer "$1" probe "probe_$side$i" || exit 1; done &
  done
  wait
  end=$(date +%s.%N)
  awk -v s="$begin" -v e="$end" 'BEGIN { printf "%.4f", 6 / (e - s) }'
}
small_speed=$(measure small)
large_speed=$(measure large)
# Two small workers are needed for this rate: one alone would be busy for 85 % of the time.
rate=$(awk -v s="$small_speed" 'BEGIN { printf "%.4f", 0.85 * s }')

cat > tiers.toml <<TIERS
[tiers.here]
latency_s = 0.0
[workers.thread]
tier = "here"
workers = 8
price_per_hour = 1.0
memory_bytes = 1e9
TIERS
cat > pipeline.toml <<PIPELINE
[pipeline]
accuracy_rule = "mean"
utilization = 0.8
[sources.users]
tier = "here"
items_per_s = $rate
[operators.router]
inputs = { users = 1.0 }
[operators.router.models.small]
speeds = { thread = $small_speed }
[operators.expert]
inputs = { router = 0.2 }
[operators.expert.models.large]
speeds = { thread = $large_speed }
PIPELINE
"$trireme" serve-plan pipeline.toml --tiers tiers.toml --json > plan.json || fail "no plan"
workers_of() {  # OPERATOR
  tr -d ' \n' < plan.json | grep -o "\"name\":\"$1\",.*" | grep -o '"thread":[0-9]*' | head -1 |
    cut -d: -f2
}
num_small=$(workers_of router)
num_large=$(workers_of expert)
[ "$num_small" -eq 2 ] || fail "the plan has $num_small small workers instead of 2"

# Takes prompts from a queue, the oldest first, for ever. A move decides who has one.
mkdir small_queue large_queue answers taken
serve() {  # MODEL
  while true; do
    idle=1
    for prompt in "$1"_queue/*; do
      name=${prompt##*/}
      mv "$prompt" "taken/$1_$name" 2>/dev/null || continue
      idle=0
      answer "$1" "taken/$1_$name" "answers/$1_$name" || echo "$1 failed" >> failed
      if [ "$1" = small ] && ((10#$name % to_large == 0)); then
        cp "answers/small_$name" "large_queue/.$name"
        mv "large_queue/.$name" "large_queue/$name"
      fi
      break
    done
    ((idle)) && sleep 0.01
  done
}
for i in $(seq "$num_small"); do serve small & workers+=($!); done
for i in $(seq "$num_large"); do serve large & workers+=($!); done

# Arrivals at random, always the same ones: exponential gaps of the promised mean.
gaps=$(awk -v n=$prompts -v r="$rate" 'BEGIN { srand(7); for (i = 0; i < n; ++i)
  printf "%.4f\n", -log(1 - rand()) / r }')
number=0
for gap in $gaps; do
  sleep "$gap"
  name=$(printf '%04d' $number)
  echo "Once there was line $number" > "small_queue/.$name"
  mv "small_queue/.$name" "small_queue/$name"
  number=$((number + 1))
done
arrived=$(date +%s.%N)
at_end=$(ls answers | grep -c '^small_[0-9]*$')
expected_large=$(((prompts + to_large - 1) / to_large))
for i in $(seq 500); do
  small_done=$(ls answers | grep -c '^small_[0-9]*$')
  large_done=$(ls answers | grep -c '^large_[0-9]*$')
  ((small_done == prompts && large_done == expected_large)) && break
  sleep 0.02
done
end=$(date +%s.%N)
stop_workers
[ ! -e failed ] || fail "$(cat failed)"
((small_done == prompts && large_done == expected_large)) ||
  fail "$small_done of $prompts small and $large_done of $expected_large large answers"

echo "$rate prompts/s promised; small $small_speed/s on $num_small, large $large_speed/s on" \
  "$num_large workers; $at_end of $prompts answered when the last one arrived; the rest after" \
  "$(awk -v a="$arrived" -v e="$end" 'BEGIN { printf "%.2f", e - a }') s"
# A rate that is not held leaves a queue that grows with the time.
((at_end * 100 >= prompts * 85)) || fail "the promised rate is not held"
