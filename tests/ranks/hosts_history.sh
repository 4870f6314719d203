#!/usr/bin/env bash
# Hosts with a history of failures in the folder of the run: one that has failed too often is left
# out, and one whose score becomes too high in this job is drained, because another host has a free
# slot. The hosts are network namespaces.
# Usage: hosts_history.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

common=(--set run.threads_per_rank=1 --set run.reproducible=layout --set run.steps=100000
        --set model.layers=1 --set batch.global_sequences=4 --set checkpoint.every=5
        --set checkpoint.keep=2 --set run.comm_timeout_s=5)
launch() { "$trireme" launch "$configs/tiny-gpt2.toml" "${common[@]}" --ranks 2 "$@"; }
on() { launch --out "$folder/$1" --hosts "$2" --ssh "$shell" --listen "$gateway" --resume auto \
  "${@:3}"; }
# failed_before RUN HOST TIMES: the run was begun, and its history says that the host has just
# failed so often.
failed_before() {
  local i
  launch --out "$folder/$1" --set run.stop_after=5 2>"$folder/log"
  for ((i = 0; i < $3; i++)); do
    echo "{\"host\":\"$2\",\"kind\":\"crashed\",\"time\":$(date +%s)}"
  done >"$folder/$1/host_history.jsonl"
}
bad=${hosts[1]}
three="${hosts[0]}:1,$bad:1,${hosts[2]}:1"

# Three failures are too many, and the others have room: the host is left out.
failed_before out "$bad" 3
on out "$three" --set run.stop_after=20 2>"$folder/log"
[[ $? == 130 ]] || fail "exit code of the run without the host"
grep -qE "host $bad has failed often lately \(score (3.0|2.9) of 2.9, .*: it is left out" \
  "$folder/log" || fail "it is not said that the host is left out"
grep -qF "\"$bad\"" "$folder/out/metrics.jsonl" && fail "the host that is left out has had ranks"

# The same, but the others have no room: the host is used, and that is said.
failed_before used "$bad" 3
on used "${hosts[0]}:1,$bad:1" --set run.stop_after=20 2>"$folder/log"
[[ $? == 130 ]] || fail "exit code of the run that needs the host"
grep -q "host $bad has failed often lately .* still used, because the other hosts have no room" \
  "$folder/log" || fail "it is not said that the host is still used"

# Two failures are not too many. The third one comes in this job: the ranks save and leave the host.
failed_before drained "$bad" 2
on drained "$three" --spares 1 --lease 2 2>"$folder/log" &
job=$!
reaches 20 drained
ranks_of_bad=$(ranks_on "$bad")
[[ -n $ranks_of_bad ]] || fail "a host with two failures gets no ranks"
kill -SEGV $ranks_of_bad
until_has "host $bad is drained: it has failed often lately \(score (3.0|2.9) of 2.9\)" \
  cat "$folder/log"
until_has "host $bad +drained" "$trireme" status "$folder/drained"
until_has "rank [01] .*${hosts[2]}" "$trireme" status "$folder/drained"
reaches 60 drained
[[ -z $(ranks_on "$bad") ]] || fail "ranks of the drained host are alive"
"$trireme" stop "$folder/drained" >/dev/null
wait $job
[[ $? == 130 ]] || fail "exit code of the run whose host was drained"
# A rank that gets SIGSEGV under the address sanitizer reports it and ends with an exit code.
history=$(<"$folder/drained/host_history.jsonl")
(($(grep -cE "\"$bad\",\"kind\":\"(crashed|failed)\"" <<<"$history") == 3)) ||
  fail "the history: $history"

launch --out "$folder/calm" --set run.stop_after=60 2>>"$folder/log"
cmp -s <(numbers calm | head -180) <(numbers drained | head -180) ||
  fail "the run whose host was drained has other numbers"
exit $failed
