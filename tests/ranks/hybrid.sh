#!/usr/bin/env bash
# Hybrid parallelism (images of convolutions and units of dense layers over the same ranks) beside
# data parallelism, each rank on a host of its own and the hosts joined by links of RATE. Prints the
# median step of runs in turns, and their ratio. It fails if hybrid parallelism is not faster. By
# hand, on a machine that does nothing else.
# Usage: hybrid.sh TRIREME CONFIGS [HOSTS [RATE [RUNS [NET [SETTING...]]]]]
# Exit code 77: skipped.
set -uo pipefail
trireme=$1 configs=$2 num_hosts=${3:-2} rate=${4:-1gbit} runs=${5:-3} name=${6:-alexnet}
own_cores=1
. "$(dirname "$0")/namespaces.sh"
make_namespaces "$num_hosts" "$rate" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

settings=(run.steps=5 run.threads_per_rank=1 run.eval_every=0 batch.global_sequences=128
          precision.compute=fp32 "${@:7}")
options=()
for setting in "${settings[@]}"; do options+=(--set "$setting"); done
list=$(IFS=,; echo "${hosts[*]/%/:1}")

run() {  # NAME AXIS IMAGES: prints the median step in seconds
  rm -rf "${folder:?}/$1"
  "$trireme" launch "$configs/bench-$name.toml" --ranks "$num_hosts" --ssh "$shell" \
    --hosts "$list" --listen "$gateway" --out "$folder/$1" "${options[@]}" \
    --set "parallel.$2=$num_hosts" --set batch.micro_sequences="$3" >>"$folder/log" 2>&1 ||
    fail "the run of $1" >&2
  tr -d ' \n' <"$folder/$1/summary.json" | grep -oE '"time":[{]"predicted".*' | head -1 |
    grep -oE '"measured":[{].*' | grep -oE '"step":[0-9.e-]+' | head -1 | cut -d: -f2
}
median() {
  sort -g | awk '{x[NR] = $1} END {print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2}'
}

for ((i = 0; i < runs; i++)); do
  run data dp $((128 / num_hosts)) >>"$folder/step.data"
  run hybrid tp 128 >>"$folder/step.hybrid"
  echo "data $(tail -1 "$folder/step.data") s, hybrid $(tail -1 "$folder/step.hybrid") s"
done
awk -v d="$(median <"$folder/step.data")" -v h="$(median <"$folder/step.hybrid")" 'BEGIN {
    printf "medians: data %.3f s, hybrid %.3f s, %.2f of that\n", d, h, h / d
    exit !(h < d)
  }' || fail "hybrid parallelism is not faster"
exit $failed
