#!/usr/bin/env bash
# By hand: a mixed cluster on one machine. Rank 0 has a core; rank 1 shares its core with a loop
# that takes half of it, so it is half as fast. `trireme plan --search alpa`
# finds a plan for them, and this plan and uniform ones are trained in turns. The found plan is at
# least 1.3 times as fast as the fastest uniform one, and its price is off by at most 8 %.
# Nothing else may run on the machine.
# Usage: mixed_cluster.sh TRIREME CONFIGS [TURNS [STEPS]]. Exit code 77: skipped.
set -uo pipefail
trireme=$(realpath "$1")
configs=$2 turns=${3:-3} steps=${4:-8}
(($(nproc) >= 2)) && command -v taskset >/dev/null || { echo "skipped: no two cores"; exit 77; }
. "$(dirname "$0")/job_folder.sh"
loop=
trap '[[ -z $loop ]] || kill "$loop" 2>/dev/null; rm -rf "$folder"' EXIT
# The step of a plan or of a summary, where it is the median without the first two steps.
step_s() { grep -oE '"step_s": *[0-9.e-]+' | grep -oE '[0-9.e-]+$' | head -1; }
median() { sort -g | awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)]}'; }

# ---- the cluster file

run=("$configs/tiny-gpt2.toml" --set model.layers=12 --set model.d_model=256 --set model.heads=4
     --set model.d_ff=1024 --set model.seq_len=128 --set model.tied_head=false
     --set batch.global_sequences=32 --set run.threads_per_rank=1)

# The file that a run leaves says what its device reaches in this model. A rank alone shows the
# speed of a core. Two ranks on cores of their own show the links and what the communication thread
# takes from the core of its rank.
taskset -c 0 "$trireme" train "${run[@]}" --set run.steps=6 --out "$folder/alone" \
  >"$folder/log" 2>&1 || fail "a rank alone does not train: $(tail -n 3 "$folder/log")"
"$trireme" launch "${run[@]}" --set run.steps=6 --set parallel.dp=2 --ranks 2 --out "$folder/pair" \
  >"$folder/log" 2>&1 || fail "two ranks do not train: $(tail -n 3 "$folder/log")"
numbers_of() {  # numbers_of RUN: those of its device
  sed '/^\[tiers/,$d' "$folder/$1/hardware.toml"
}
device() {
  numbers_of alone | grep -vE '^(background_s|core_s_per_byte|overlap_share) = '
  numbers_of pair | grep -E '^(background_s|core_s_per_byte|overlap_share) = '
}
taskset -c 1 sh -c 'while :; do :; done' &
loop=$!
# A rank that measured itself beside the loop would take the calls that the loop did not interrupt,
# so the numbers of the slow rank are those of half a core.
half='/^(fp32_flops|bf16_flops|fp16_flops|memory_bytes_per_s|matmul_bytes_per_s) = / {
        printf "%s = %.9g\n", $1, $3 / 2 }
      /^launch_s = / { printf "%s = %.9g\n", $1, 2 * $3 }'
link() {  # link KEY: of the innermost tier that was measured
  sed -n '/^\[tiers/,$p' "$folder/pair/hardware.toml" | grep -m 1 "^$1 = "
}
{
  device
  printf '[devices.slow]\nfirst_rank = 1\nname = "half a core"\n'
  device | awk "$half"
  printf '\n[tiers.node]\nranks = 1\n%s\n%s\n' "$(link latency_s)" "$(link bytes_per_s)"
  printf '\n[tiers.cluster]\n%s\n%s\n' "$(link latency_s)" "$(link bytes_per_s)"
} >"$folder/mixed.toml"

# ---- the plans

run+=(--set run.steps="$steps")
"$trireme" plan "${run[@]}" --ranks 2 --search alpa --cluster "$folder/mixed.toml" \
  --out "$folder/plan.toml" || { fail "the search"; exit 1; }
grep -E '^(pp|dp|stage_dp|stage_layers|micro_sequences) = ' "$folder/plan.toml"
micro=$(grep -oE '^micro_sequences = [0-9]+' "$folder/plan.toml" | grep -oE '[0-9]+$')
plans=(found dp pp)
# options_of PLAN: the configuration of a plan; one option a line
options_of() {
  case $1 in
    found) printf '%s\n' "$folder/plan.toml" --set run.steps="$steps" ;;
    dp) printf '%s\n' "${run[@]}" --set parallel.dp=2 --set batch.micro_sequences="$micro" ;;
    pp) printf '%s\n' "${run[@]}" --set parallel.pp=2 --set batch.micro_sequences="$micro" ;;
  esac
}
predicted() {  # predicted PLAN: seconds of a step
  local options
  mapfile -t options < <(options_of "$1")
  "$trireme" plan "${options[@]}" --cluster "$folder/mixed.toml" --json | step_s
}

# ---- the runs

train() {  # train PLAN: adds its step to those of the plan
  local options
  mapfile -t options < <(options_of "$1")
  rm -rf "${folder:?}/out"
  "$trireme" launch "${options[@]}" --ranks 2 --out "$folder/out" >/dev/null 2>"$folder/log" &
  local agent=$! pids=() i pid rank
  for ((i = 0; i < 500 && ${#pids[@]} < 2; i++)); do
    pids=()
    for pid in $(ranks_of $agent); do  # the agent has other children, too
      rank=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^TRIREME_RANK=//p')
      [[ -z $rank ]] || pids[rank]=$pid
    done
    sleep 0.01
  done
  for i in 0 1; do taskset -a -c -p $i "${pids[i]}" >/dev/null || fail "rank $i has no core"; done
  wait $agent || fail "the plan $1 does not train: $(tail -n 3 "$folder/log")"
  step_s <"$folder/out/summary.json" >>"$folder/steps.$1"
}
for ((turn = 0; turn < turns; turn++)); do
  for plan in "${plans[@]}"; do train "$plan"; done
done
for plan in "${plans[@]}"; do
  echo "$plan $(median <"$folder/steps.$plan") $(predicted "$plan")"
done | awk '
  {
    printf "%-6s step %.4f s, predicted %.4f s (%+.1f %%)\n", $1, $2, $3, 100 * ($3 / $2 - 1)
    if ($1 == "found") { found = $2; price = $3 }
    else if (!uniform || $2 < uniform) uniform = $2
  }
  END {
    printf "the found plan is %.2f times as fast as the fastest uniform one\n", uniform / found
    off = price / found - 1
    exit !(uniform >= 1.3 * found && off <= 0.08 && off >= -0.08)
  }' || fail "the aims are a gain of 1.3 and an error of at most 8 %"
exit $failed
