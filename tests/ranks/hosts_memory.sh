#!/usr/bin/env bash
# Checkpoints in the memory of several hosts, which are network namespaces: a host is lost, and its
# part comes back from the parity of the others, also for fewer ranks, and so do those of a failure
# domain. If more hosts are lost than parity can replace, the run resumes from disk. The numbers and
# the weights stay those of one host.
# Usage: hosts_memory.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 4 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"
. "$(dirname "$0")/times.sh"

steps=200
common=(--set run.threads_per_rank=1 --set run.reproducible=layout --set run.steps=100000
        --set model.layers=1 --set batch.global_sequences=4 --set parallel.zero=1
        --set run.stop_after=$steps)
launch() { "$trireme" launch "$configs/tiny-gpt2.toml" --ranks 4 "${common[@]}" "$@"; }
# on OUT HOSTS OPTION...: a job with checkpoints in memory on the namespaces, in the background.
on() { on_hosts "$1" --hosts "$2" "${@:3}"; }
on_hosts() {
  launch --out "$folder/$1" "${@:2}" --ssh "$shell" --listen "$gateway" \
    --set checkpoint.memory_every=1 2>>"$folder/log" &
  job=$!
}
weights() {
  rm -rf "$folder/$1/exported"
  "$trireme" checkpoint export "$folder/$1" --threads 1 --out "$folder/$1/exported" \
    >>"$folder/log" 2>&1 || fail "no weights of $1"
  (cd "$folder/$1/exported" && sha256sum ./*.safetensors)
}

launch --out "$folder/calm" 2>>"$folder/log"
[[ $? == 130 ]] || fail "the run on one host"

# Nothing is on disk when a host with two of the four ranks is lost: the agent of that of rank 0 is
# killed, or another host, which does not lead either, is cut off.
for lost in 0 2; do
  slots=(1 1 1)
  slots[lost]=2
  on parity$lost "${hosts[0]}:${slots[0]},${hosts[1]}:${slots[1]},${hosts[2]}:${slots[2]}"
  reaches 20 parity$lost
  if ((lost == 0)); then
    kill -KILL "$(agent_on "${hosts[0]}")"
  else
    ip link set "${hosts[lost]}" down
  fi
  until_has '"event":"restart"' cat "$folder/parity$lost/metrics.jsonl"
  tell_gap "host $lost is lost, its part comes from parity" "$folder/parity$lost" "" 5
  from_parity parity$lost "" ||
    fail "host $lost is lost: $(restart parity$lost | grep -o '"epoch":.*')"
  wait $job
  [[ $? == 130 ]] || fail "exit code of the run that has lost host $lost"
  for pid in $(agent_on "${hosts[lost]}"); do kill -KILL "$pid"; done
  ip link set "${hosts[lost]}" up
  cmp -s <(numbers calm) <(numbers parity$lost) || fail "other numbers without host $lost"
  cmp -s <(weights calm) <(weights parity$lost) || fail "other weights without host $lost"
done

# A failure domain with two of four hosts is lost at once. The groups are pairs of hosts, and each
# has one host of each domain.
printf '%s domain=%s\n' "${hosts[0]}:1" north "${hosts[1]}:1" south "${hosts[2]}:1" north \
  "${hosts[3]}:1" south >"$folder/hosts"
on_hosts domain --hostfile "$folder/hosts" --set checkpoint.parity=1+1
reaches 20 domain
kill -KILL "$(agent_on "${hosts[0]}")" "$(agent_on "${hosts[2]}")"
until_has '"event":"restart"' cat "$folder/domain/metrics.jsonl"
grep -q '"from":"parity"' <(restart domain) || fail "a domain is lost: $(restart domain)"
wait $job
cmp -s <(numbers calm) <(numbers domain) || fail "other numbers without a domain"
cmp -s <(weights calm) <(weights domain) || fail "other weights without a domain"
# All hosts are of one domain, whose loss parity cannot replace.
printf '%s domain=north\n' "${hosts[0]}:2" "${hosts[1]}:2" >"$folder/hosts"
on_hosts one --hostfile "$folder/hosts"
reaches 5 one
grep -q 'failure domain north .*at most 1 of them may be lost' "$folder/log" ||
  fail "no word that one domain has all hosts"
"$trireme" stop "$folder/one" >/dev/null
wait $job

# Two of three hosts are lost at once: 2+1 parity replaces one. The next checkpoint on disk is far
# away, so those in memory are newer.
on disk "${hosts[0]}:2,${hosts[1]}:1,${hosts[2]}:1" --set checkpoint.every=60
reaches 65 disk
kill -KILL "$(agent_on "${hosts[1]}")" "$(agent_on "${hosts[2]}")"
until_has '"event":"restart"' cat "$folder/disk/metrics.jsonl"
grep -q '"from":"disk"' <(restart disk) || fail "two hosts are lost: $(restart disk)"
grep -qE "cannot be taken from memory: of hosts .* missing on .*${hosts[1]}.*, and at most 1 may" \
  "$folder/log" || fail "the refusal of parity is not told"
"$trireme" stop "$folder/disk" >/dev/null
wait $job
cmp -s <(numbers calm | head -180) <(numbers disk | head -180) || fail "other numbers from disk"

judge_times
exit $failed
