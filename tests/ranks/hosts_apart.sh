#!/usr/bin/env bash
# Hosts of a job, which are network namespaces: one is lost, and another one gets no rank any more,
# so it gives its part of the checkpoint in memory away. Then two hosts reach the launcher but not
# each other: the job goes on without one of them, until they reach each other again.
# Usage: hosts_apart.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

common=(--set run.threads_per_rank=1 --set run.reproducible=layout --set run.steps=100000
        --set model.layers=1 --set batch.global_sequences=6 --set parallel.zero=1
        --set run.comm_timeout_s=3)
launch() { "$trireme" launch "$configs/tiny-gpt2.toml" "${common[@]}" "$@"; }
on() {
  launch --out "$folder/$1" --hosts "$2" --ssh "$shell" --listen "$gateway" "${@:3}" \
    2>>"$folder/log" &
  job=$!
}

# Three ranks on three hosts become one. Its host alone could not replace two parts by 2+1 parity.
on idle "${hosts[0]},${hosts[1]},${hosts[2]}" --ranks 3 --layouts dp --lease 2 \
  --set checkpoint.memory_every=1 --set run.stop_after=150
reaches 20 idle
kill -KILL "$(agent_on "${hosts[1]}")"
until_has '"event":"restart"' cat "$folder/idle/metrics.jsonl"
from_parity idle dp=1 ||
  fail "a host without ranks has not given its part: $(restart idle | grep -o '"epoch":.*')"
wait $job
[[ $? == 130 ]] || fail "exit code of the run with an idle host"

# Two hosts that do not lead cannot reach each other. Ranks stay on the others, and return later.
on apart "${hosts[0]}:1,${hosts[1]}:1,${hosts[2]}:1" --ranks 3 --lease 2 --set checkpoint.every=5
reaches 20 apart
leader=$("$trireme" status "$folder/apart" --json | grep -oE '"agent":\{"host":"[^"]*')
others=()
for i in 1 2 3; do [[ $leader == *"${hosts[i - 1]}" ]] || others+=($i); done
apart() {  # add or del
  ip -n "$tag"h${others[0]} route "$1" blackhole "${net%.0/24}.${others[1]}/32"
  ip -n "$tag"h${others[1]} route "$1" blackhole "${net%.0/24}.${others[0]}/32"
}
apart add
until_has '"event":"restart"' cat "$folder/apart/metrics.jsonl"
grep -q "hosts .* and .* do not reach each other; the job goes on without" "$folder/log" ||
  fail "it is not said who does not reach whom"
grep -q '"class":"host".*which does not reach host' "$folder/apart/metrics.jsonl" ||
  fail "the failure: $(grep '"failure"' "$folder/apart/metrics.jsonl")"
reaches 60 apart
apart del
until_has '"ranks":3,"layout"' cat "$folder/apart/metrics.jsonl"
for host in "${hosts[@]}"; do
  until_has "host $host +in use" "$trireme" status "$folder/apart"
done
reaches 150 apart  # all steps that are compared below
"$trireme" stop "$folder/apart" >/dev/null
wait $job
[[ $? == 130 ]] || fail "exit code of the run whose hosts were apart"

launch --ranks 1 --out "$folder/calm" --set run.stop_after=150 2>>"$folder/log"
for run in idle apart; do
  cmp -s <(numbers calm | head -300) <(numbers $run | head -300) || fail "$run has other numbers"
done
exit $failed
