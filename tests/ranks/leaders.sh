#!/usr/bin/env bash
# A job on several hosts survives the loss of its launcher, of its leader, of a host, of the network
# between hosts, and of the Coord for some time, without anybody's help and with the same numbers.
# The hosts are network namespaces joined by a bridge.
# Usage: leaders.sh TRIREME CONFIGS [SECONDS_WITHOUT_COORD]. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
without_coord=${3:-4}
command -v etcd >/dev/null || { echo "skipped: etcd is not installed"; exit 77; }
. "$(dirname "$0")/namespaces.sh"
. "$(dirname "$0")/times.sh"
make_namespaces 3 "" || exit 77

folder=$(mktemp -d)
failed=0
etcd_pid=
job=
fail() { echo "FAILED: $*"; failed=1; }
clean() {
  if ((failed != 0)); then
    grep -v ": saved" "$folder/log" | tail -100
    grep -hE '"(failure|restart)"' "$folder"/*/metrics.jsonl
  fi
  remove_namespaces
  [[ -z $etcd_pid ]] || kill -KILL "$etcd_pid"
  [[ -z $job ]] || kill -KILL "$job" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$folder"
}
trap clean EXIT

steps=100000
common=(--set run.threads_per_rank=1 --set checkpoint.every=5 --set checkpoint.keep=2
        --set run.reproducible=layout --set run.steps=$steps --set model.layers=1
        --set batch.global_sequences=4 --set run.comm_timeout_s=5)
launch=("$trireme" launch "$configs/tiny-gpt2.toml" "${common[@]}" --ranks 4)
numbers() {
  grep '"event":"train"' "$folder/$1/metrics.jsonl" | grep -oE '"(step|loss|grad_norm)":[^,]*'
}
weights() {
  rm -rf "$folder/hf"
  "$trireme" checkpoint export "$folder/$1" --format hf --out "$folder/hf" >/dev/null 2>&1 ||
    fail "the weights of $1 cannot be exported"
  sha256sum <"$folder/hf/model.safetensors"
}
step_of() { grep '"event":"train"' "$folder/$1/metrics.jsonl" 2>/dev/null | tail -1 |
  grep -oE '"step":[0-9]+' | grep -oE '[0-9]+' || echo 0; }
# passes STEPS OUT [SECONDS]: waits until so many more steps are done.
passes() {
  local before=$(step_of "$2") i
  for ((i = 0; i < 50 * ${3:-30}; i++)); do
    (($(step_of "$2") >= before + $1)) && return
    sleep 0.02
  done
  fail "$2 makes no steps after step $before"
}
# The agent that leads, as its host and its process.
leader_of() {
  grep -oE '"agent":\{[^}]*' <("$trireme" status "$folder/$1" --json) |
    sed -E 's/.*"host":"([^"]*)","pid":([0-9]*).*/\1 \2/'
}
agent_on() { pgrep -f "agent --join .* --name $1"; }
restarts() { cat "$folder/$1/metrics.jsonl" 2>/dev/null | grep -c '"event":"restart"'; }
# survives OUT WHAT [BOUND]: waits until the run has resumed after the disturbance WHAT, which has
# just been made, and says how long it made no steps, at most BOUND seconds. `before` is the number
# of restarts before it. (The lines of steps that were done again are gone, so their times cannot be
# compared.)
survives() {
  local i
  for ((i = 0; i < 1500; i++)); do (($(restarts "$1") > before)) && break; sleep 0.02; done
  ((i < 1500)) || fail "$1 has not resumed: $2"
  before=$(restarts "$1")
  tell_gap "$2" "$folder/$1" "" "${3:-}"
}
# Slow links make few steps, which the run on one host must repeat. A job measures its links when it
# starts and when it grows, so they are fast then.
slow_links() {
  for host in "${hosts[@]}"; do
    tc qdisc replace dev "$host" root tbf rate 50mbit burst 64kb latency 100ms
  done
}
fast_links() { for host in "${hosts[@]}"; do tc qdisc del dev "$host" root 2>/dev/null; done; }
# until_has TEXT OUT: waits until the status has the text.
until_has() {
  local i
  for ((i = 0; i < 750; i++)); do
    grep -qE "$1" <("$trireme" status "$folder/$2" 2>/dev/null) && return
    sleep 0.02
  done
  fail "no \"$1\" in the status of $2"
}
before=0

# The launcher leads and is killed, then the agent that leads, then the host of the one after it is
# cut off. The Coord is a folder in that of the run.
"${launch[@]}" --out "$folder/leaders" --hosts "${hosts[0]}:2,${hosts[1]}:2,${hosts[2]}:2" \
  --spares 1 --ssh "$shell" --listen "$gateway" 2>>"$folder/log" &
job=$!
passes 20 leaders
slow_links
kill -KILL $job
survives leaders "the launcher is killed"
leader=$(leader_of leaders)
kill -KILL "${leader#* }" || fail "no agent on $leader"
survives leaders "the agent that leads is killed"
next=$(leader_of leaders)
passes 2 leaders
[[ ${next% *} != "${leader% *}" ]] || fail "${leader% *} leads after its end"
ip link set "${next% *}" down || fail "no host $next"
survives leaders "the host of the agent that leads is cut off" 5
fast_links
ip link set "${next% *}" up
until_has "host ${next% *} +in use" leaders
"$trireme" stop "$folder/leaders" >/dev/null || fail "stop"
until_has ^ended leaders
cmp -s <(grep -oE '"number":[0-9]+' "$folder/leaders/metrics.jsonl" | uniq -d) /dev/null ||
  fail "a failure is told twice"

# The hosts agree in etcd. It is stopped for some seconds: the ranks stand still and resume. Then
# one host is cut off from all others and from etcd: it stands still, and the others go on.
etcd --data-dir "$folder/etcd" --listen-client-urls "http://$gateway:2379" \
  --advertise-client-urls "http://$gateway:2379" --listen-peer-urls http://127.0.0.1:0 \
  >"$folder/etcd.log" 2>&1 &
etcd_pid=$!
"${launch[@]}" --out "$folder/etcd-run" --hosts "${hosts[0]}:2,${hosts[1]}:2" --ssh "$shell" \
  --listen "$gateway" --coord "etcd:$gateway:2379" 2>>"$folder/log" &
job=$!
before=0
passes 20 etcd-run
slow_links
kill -STOP $etcd_pid
sleep 3
step=$(step_of etcd-run)
sleep $((without_coord - 3))
[[ $(step_of etcd-run) == "$step" ]] || fail "ranks run without the Coord"
kill -CONT $etcd_pid
survives etcd-run "etcd was stopped for $without_coord s"
passes 2 etcd-run
ip link set "${hosts[1]}" down
survives etcd-run "a host is cut off from the others and from etcd" 5
fast_links
ip link set "${hosts[1]}" up
until_has "host ${hosts[1]} +in use" etcd-run
passes 20 etcd-run
"$trireme" stop "$folder/etcd-run" >/dev/null || fail "stop of the run with etcd"
wait $job
code=$?
[[ $code == 130 ]] || fail "exit code $code of the run with etcd"

# A run on one host that nothing disturbs has the same numbers and weights. Both runs may have
# stopped at the same step.
for run in $(for run in leaders etcd-run; do echo "$(step_of $run) $run"; done | sort -n |
             sed 's/.* //'); do
  stopped=$(step_of $run)
  if [[ $(step_of calm) != "$stopped" ]]; then
    "${launch[@]}" --out "$folder/calm" --resume auto --set run.stop_after="$stopped" \
      2>>"$folder/log"
    [[ $? == 130 ]] || fail "the run on one host"
  fi
  cmp -s <(numbers calm) <(numbers $run) || fail "$run has other numbers"
  [[ $(weights calm) == "$(weights $run)" ]] || fail "$run has other weights"
done
judge_times
exit $failed
