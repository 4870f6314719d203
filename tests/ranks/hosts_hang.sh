#!/usr/bin/env bash
# A rank that is alone on its host hangs. Nobody waits for it there, so only all hosts together can
# tell that it holds up the job, long before the deadline of 60 s. The hosts are network namespaces.
# Usage: hosts_hang.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"
. "$(dirname "$0")/times.sh"

"$trireme" launch "$configs/tiny-gpt2.toml" --ranks 3 --out "$folder/hang" --lease 3 \
  --hosts "${hosts[0]}:1,${hosts[1]}:1,${hosts[2]}:1" --ssh "$shell" --listen "$gateway" \
  --set run.threads_per_rank=1 --set run.steps=100000 --set model.layers=1 \
  --set batch.global_sequences=6 --set checkpoint.every=20 --set checkpoint.keep=1 \
  --set run.comm_timeout_s=60 2>"$folder/log" &
job=$!
reaches 60 hang
stopped=$(ranks_on "${hosts[1]}" | head -1)
SECONDS=0
kill -STOP "$stopped" || fail "no rank on ${hosts[1]}"
until_has '"event":"restart"' cat "$folder/hang/metrics.jsonl"
((SECONDS < 20)) || fail "the job stood still for $SECONDS s"
failure=$(grep '"event":"failure"' "$folder/hang/metrics.jsonl" | head -1)
for part in '"class":"hang"' "\"host\":\"${hosts[1]}\"" 'it is stopped (SIGSTOP)' \
            'ranks of the job waited for it'; do
  grep -qF "$part" <<<"$failure" || fail "no $part in $failure"
done
kill -0 "$stopped" 2>/dev/null && fail "the rank that hangs was not killed"
until_has '"kind": "hang"' cat "$folder/hang/failures/001/evidence.json"
# The budget of a step is a second here.
tell_gap "a rank that is alone on its host is stopped" "$folder/hang" 1 3
"$trireme" stop "$folder/hang" >/dev/null
wait $job
[[ $? == 130 ]] || fail "exit code"
judge_times
exit $failed
