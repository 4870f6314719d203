#!/usr/bin/env bash
# A job on several hosts, which are network namespaces joined by a bridge: ranks, agents and hosts
# are lost, hosts are drained and come back, and the numbers stay those of one host.
# Usage: hosts.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

steps=300
common=(--set run.threads_per_rank=1 --set checkpoint.every=5 --set checkpoint.keep=2
        --set run.reproducible=mesh --set run.steps=100000 --set model.layers=2
        --set batch.global_sequences=4)
launch() { "$trireme" launch "$configs/tiny-gpt2.toml" "${common[@]}" "$@"; }
# on OUT RANKS HOSTS OPTION...: a job on the named namespaces, in the background. RANKS may be "",
# if the options set all degrees.
on() {
  launch --out "$folder/$1" ${2:+--ranks "$2"} --hosts "$3" --ssh "$shell" --listen "$gateway" \
    "${@:4}" 2>>"$folder/log" &
  job=$!
}
# listens HOST ADDRESS: no process of the host listens at another address, except for itself.
listens() {
  local address found=0
  while read -r address; do
    [[ $address == "$2":* ]] && found=1
    [[ $address == "$2":* || $address == 127.* || $address == "[::1]":* ]] ||
      fail "host $1 listens at $address"
  done < <(ip netns exec "$1" ss -H -ltn | awk '{print $4}')
  ((found)) || fail "host $1 does not listen at $2"
}
same_numbers() { cmp -s <(numbers calm) <(numbers "$1") || fail "$1 has other numbers"; }

launch --ranks 4 --set run.stop_after=$steps --out "$folder/calm" 2>>"$folder/log"
[[ $? == 130 ]] || fail "the run on one host"

# A rank on another host is killed, then the agent of a host: a spare takes its place.
on spare 4 "${hosts[0]}:2,${hosts[1]}:2,${hosts[2]}:2" --spares 1 --set run.stop_after=$steps
reaches 20 spare
kill -KILL "$(ranks_on "${hosts[1]}" | head -1)"
until_has 'epoch 2' "$trireme" status "$folder/spare"
reaches 40 spare  # else the next restart takes back the step of this one, and its line
kill -KILL "$(agent_on "${hosts[1]}")"
until_has "host ${hosts[1]} +gone" "$trireme" status "$folder/spare"
wait $job
[[ $? == 130 ]] || fail "exit code of the run with a spare"
same_numbers spare
[[ $(restarts spare) == 2 ]] || fail "$(restarts spare) restarts with a spare"

# A host is cut off and comes back: the layout, of which no smaller dp is left, becomes one that
# the search finds, and grows again. Then a host is drained. One rank alone would need 7.6 MiB, so
# the search takes two ranks, also if a busy machine makes them look slow.
on cut "" "${hosts[0]}:2,${hosts[1]}:2" --set run.comm_timeout_s=5 --set parallel.tp=2 \
  --set parallel.pp=2 --set memory.limit_bytes=7000000
num_shrunk() { grep -cE '"ranks":2,"layout":"dp=[12]' "$folder/cut/metrics.jsonl"; }
reaches 20 cut
for i in 0 1; do listens "${hosts[i]}" "${net%.0/24}.$((i + 1))"; done
ip link set "${hosts[1]}" down
until_has "host ${hosts[1]} +gone" "$trireme" status "$folder/cut"
until_has '^1$' num_shrunk
kill -KILL "$(ranks_on "${hosts[0]}" | head -1)"  # a rank that starts in the smaller layout
until_has '^2$' num_shrunk
ip link set "${hosts[1]}" up
until_has '"layout":"dp=1 tp=2 pp=2 schedule=1f1b"' cat "$folder/cut/metrics.jsonl"
until_has "host ${hosts[1]} +in use" "$trireme" status "$folder/cut"
"$trireme" drain "$folder/cut" nobody 2>>"$folder/log" && fail "a host that is not there is drained"
"$trireme" drain "$folder/cut" "${hosts[0]}" >/dev/null || fail "drain"
until_has "host ${hosts[0]} +drained" "$trireme" status "$folder/cut"
for ((i = 0; i < 750; i++)); do (($(restarts cut) >= 4)) && break; sleep 0.02; done
((i < 750)) || fail "$(restarts cut) restarts after a host was drained"
# They are told to end when the others begin their epoch, so they may outlive its first step.
for ((i = 0; i < 250; i++)); do [[ -z $(ranks_on "${hosts[0]}") ]] && break; sleep 0.02; done
((i < 250)) || fail "ranks of a drained host are alive"
"$trireme" drain "$folder/cut" "${hosts[1]}" 2>>"$folder/log" && fail "the last host is drained"
reaches $steps cut
"$trireme" stop "$folder/cut" >/dev/null
wait $job
code=$?
[[ $code == 130 ]] || fail "exit code $code of a run on hosts that was stopped"
cmp -s <(numbers calm | head -$((3 * steps))) <(numbers cut | head -$((3 * steps))) ||
  fail "other numbers after hosts have left and come back"

grep -q 'epoch 1 begins' "$folder/log" && fail "the start of a job is a warning"
grep -q "host ${hosts[0]} is drained; epoch" "$folder/log" || fail "the drain is not told"
grep -q "^status: trireme status $folder/cut" "$folder/log" || fail "how to ask is not told"

# Agents that join by hand, with a secret. Beside them, a launcher waits for others.
export TRIREME_SECRET=one
launch --out "$folder/small" --ranks 4 --agents 2 --listen "$gateway:7072" 2>"$folder/small.log" &
small=$!
launch --out "$folder/hand" --set run.stop_after=$steps --ranks 2 --agents 2 \
  --listen "$gateway:7071" 2>>"$folder/log" &
job=$!
TRIREME_SECRET=two "$trireme" agent --join "$gateway:7071" 2>"$folder/refused" </dev/null &&
  fail "a wrong secret is taken"
grep -q 'the secrets differ' "$folder/refused" || fail "the refusal: $(<"$folder/refused")"
"$trireme" agent --join "$gateway:7071" --listen 0.0.0.0 2>"$folder/refused" </dev/null &&
  fail "an agent listens on all interfaces"
grep -q 'give --listen with an address' "$folder/refused" ||
  fail "the refusal: $(<"$folder/refused")"
# Their hosts have a second address, at which alone they are to be reached.
for i in 0 1; do
  ip -n "${hosts[i]}" addr add "${net%.0/24}.10$i/24" dev eth0
  "$shell" "${hosts[i]}" "$trireme" agent --join "$gateway:7071" --listen "${net%.0/24}.10$i" \
    --slots 1 2>>"$folder/log" &
done
# Whoever leads, the address answers what stands in the folder. A newer report may come in between.
asked() { "$trireme" status "$gateway:7071" --json 2>>"$folder/log"; }
same_status() { cmp -s <(asked) <("$trireme" status "$folder/hand" --json) && echo same; }
until_has '"state":"running".*"training"' asked
until_has '^same$' same_status
for i in 0 1; do listens "${hosts[i]}" "${net%.0/24}.10$i"; done
TRIREME_SECRET=two "$trireme" status "$gateway:7071" 2>"$folder/refused" &&
  fail "a wrong secret is told the status"
grep -q 'the secrets differ' "$folder/refused" || fail "the refusal: $(<"$folder/refused")"
"$trireme" status "$gateway:7071" --watch >"$folder/watched" 2>>"$folder/log" &
watch=$!
wait $job
[[ $? == 130 ]] || fail "exit code of the run with agents that join by hand"
same_numbers hand
wait $watch || fail "exit code of the status that was watched"
grep -q '^ended: ' "$folder/watched" || fail "the end was not seen: $(tail -5 "$folder/watched")"

# A job that cannot begin takes its agents with it at once.
until_has "^0 of 2 agents have joined; start the others: trireme agent --join $gateway:7072" \
  cat "$folder/small.log"
SECONDS=0
for host in "${hosts[@]:0:2}"; do
  "$shell" "$host" "$trireme" agent --join "$gateway:7072" --slots 1 2>>"$folder/small.log" &
done
wait $small
[[ $? == 2 ]] || fail "exit code of a job without enough slots"
wait
((SECONDS < 8)) || fail "agents have stayed $SECONDS s after a launcher that could not begin"
grep -q '4 ranks do not fit into the 2 slots' "$folder/small.log" ||
  fail "why the job cannot begin: $(<"$folder/small.log")"

exit $failed
