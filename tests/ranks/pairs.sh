#!/usr/bin/env bash
# DualPipe's pairs on two hosts with a slow link between them: ranks that share experts hide most of
# what travels inside their layers behind the other direction, and no number changes. Every token
# visits both experts, so no rank has more rows than the other one. A run of 21 steps measures the
# machine, and the file that it leaves prices the others. Prints the medians of pairs of runs in
# turns, and their prices. Runs for a quarter of an hour; the machine should do nothing else.
# Usage: pairs.sh TRIREME CONFIGS [RANKS_OF_A_HOST [RATE [RUNS [SETTING...]]]]
# Exit code 77: skipped.
set -uo pipefail
trireme=$1 configs=$2 of_host=${3:-1} rate=${4:-800mbit} runs=${5:-3}
own_cores=1
. "$(dirname "$0")/namespaces.sh"
make_namespaces 2 "$rate" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

schedule=dualpipev
((of_host > 1)) && schedule=dualpipe
settings=(run.steps=3 run.threads_per_rank=1 model.layers=4 model.d_model=512 model.d_ff=1024
          model.experts=2 model.top_k=2 model.shared_experts=2 model.seq_len=256
          batch.global_sequences=32 batch.micro_sequences=1
          "parallel.schedule=$schedule" "parallel.pp=$of_host" parallel.dp=2 parallel.ep=2
          parallel.order=tp,pp,cp,dp "${@:6}")
options=()
for setting in "${settings[@]}"; do options+=(--set "$setting"); done

run() {  # NAME PAIR
  rm -rf "${folder:?}/$1"
  "$trireme" launch "$configs/tiny-moe.toml" --ranks $((2 * of_host)) --ssh "$shell" \
    --hosts "${hosts[0]}:$of_host,${hosts[1]}:$of_host" --listen "$gateway" --out "$folder/$1" \
    "${options[@]}" --set "parallel.pair=$2" "${@:3}" >>"$folder/log" 2>&1 ||
    fail "the run with pair = $2"
}
# part NAME KIND KEY: a part of the measured or predicted step of the first rank, in milliseconds.
part() {
  tr -d ' \n' <"$folder/$1/summary.json" | grep -oE '"time":[{]"predicted".*' | head -1 |
    grep -oE "\"$2\":[{].*" | grep -oE "\"$3\":[0-9.e-]+" | head -1 |
    awk -F: '{printf "%.2f\n", 1000 * $2}'
}
median() {
  sort -g | awk '{x[NR] = $1} END {print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2}'
}

run before false --set run.steps=21
cp "$folder/before/hardware.toml" "$folder/hardware.toml" || fail "no hardware.toml"
((failed)) && exit 1
options+=(--set "run.hardware=$folder/hardware.toml")

for ((i = 0; i < runs; i++)); do
  for pair in false true; do
    run $pair $pair
    echo "pair = $pair: step $(part $pair measured step) ms, exposed ep" \
      "$(part $pair measured ep) ms; predicted $(part $pair predicted step) and" \
      "$(part $pair predicted ep) ms"
    part $pair measured step >>"$folder/step.$pair"
    part $pair predicted step >>"$folder/price.$pair"
    part $pair measured ep >>"$folder/ep.$pair"
  done
  cmp -s <(numbers false) <(numbers true) || fail "pairs change the numbers"
done
apart=$(median <"$folder/ep.false") beside=$(median <"$folder/ep.true")
awk -v a="$apart" -v b="$beside" -v s="$(median <"$folder/step.false")" \
  -v t="$(median <"$folder/step.true")" 'BEGIN {
    printf "exposed ep: %.0f %% of a step apart; beside each other %.2f of that; step %.2f\n",
           100 * a / s, b / a, t / s
    exit !(b <= 0.35 * a)
  }' || fail "more than 0.35 of the transfers is exposed"
for pair in false true; do
  awk -v p="$(median <"$folder/price.$pair")" -v s="$(median <"$folder/step.$pair")" -v n=$pair \
    'BEGIN {
      printf "pair = %s: %.2f of the price\n", n, s / p
      exit s > 1.05 * p || s < 0.95 * p
    }' || fail "the price is more than 5 % off"
done
exit $failed
