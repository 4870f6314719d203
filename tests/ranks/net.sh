#!/bin/bash
# Simulates separate hosts: network namespaces joined by a bridge, each behind a link limited to 200
# Mbit/s. Checks that the hierarchical algorithm beats a flat ring there, that ranks that train send
# the predicted bytes, and that the ranks of a host that is cut off, and the other ranks, end at
# their deadline and name the rank for which they wait.
# Usage: PROGRAM MPIRUN TRIREME CONFIGS. Exit code 77: skipped.
set -u
. "$(dirname "$0")/mpirun.sh"
TRIREME=$3
CONFIGS=$4

. "$(dirname "$0")/namespaces.sh"
log=$(mktemp)
reports=$(mktemp -d)
job=
clean() {
  [ -n "$job" ] && kill -9 -- "-$job" 2>/dev/null
  remove_namespaces
  rm -rf "$reports"
  rm -f "$log"
}
trap clean EXIT
make_namespaces 4 200mbit || exit 77

# hosts_run ORDER HOSTS COMMAND...: ORDER is "node" for ranks numbered round robin over the hosts,
# "slot" for host by host.
hosts_run() {
  local order=$1 list=$2
  shift 2
  timeout --foreground 100 "$MPIRUN" --mca plm_rsh_agent "$shell" --mca plm_rsh_no_tree_spawn 1 \
    --mca btl_tcp_if_include "$net" --mca oob_tcp_if_include "$net" --mca btl self,vader,tcp \
    --bind-to none --map-by "$order" --host "$list" "$@" </dev/null
}

# across HOSTS ARG...: two ranks per host, numbered round robin.
across() { hosts_run node "$1" "$PROGRAM" "${@:2}"; }

# trains HOSTS SETTING...: every rank sends the bytes that the run has predicted.
trains() {
  local list=$1 options=() setting
  shift
  for setting in "$@"; do options+=(--set "$setting"); done
  rm -rf "$reports/run"
  hosts_run slot "$list" "$TRIREME" train "$CONFIGS/tiny-gpt2.toml" --out "$reports/run" \
    --set run.steps=2 --set run.threads_per_rank=1 --set model.layers=2 "${options[@]}" \
    >"$log" 2>&1 || { echo "FAILED on $list: $*"; tail -n 5 "$log"; exit 1; }
  local traffic='"traffic":[{]"predicted":([{][^}]*[}]),"measured":([{][^}]*[}])'
  tr -d ' \n' <"$reports/run/summary.json" | grep -oE "$traffic" | sed -E "s/$traffic/\1 \2/" |
    awk '{if ($1 != $2) {print "predicted " $1 ", sent " $2; bad = 1}}
         END {exit bad || NR == 0}' || { echo "OTHER BYTES on $list: $*"; exit 1; }
  echo "bytes as predicted: $(tr ',' '\n' <<<"$list" | wc -l) hosts, $*"
}

two=${hosts[0]}:2,${hosts[1]}:2
for list in "$two" "$two,${hosts[2]}:2"; do
  output=$(across "$list" compare 60 2>&1) || { echo "$output"; exit 1; }
  ring=$(awk '$1 == "ring" {print $2}' <<<"$output")
  hierarchical=$(awk '$1 == "hierarchical" {print $2}' <<<"$output")
  found=$(awk '$1 == "hosts" {print $2}' <<<"$output")
  wanted=$(tr ',' '\n' <<<"$list" | wc -l)
  echo "$wanted hosts: flat ring $ring s, hierarchical $hierarchical s"
  [ "$found" = "$wanted" ] || { echo "ranks found $found hosts"; exit 1; }
  awk -v r="$ring" -v h="$hierarchical" 'BEGIN {exit !(h * 1.2 < r)}' ||
    { echo "hierarchical does not beat the flat ring"; exit 1; }
done
across "$two" collectives 60 || exit 1

three=$two,${hosts[2]}:2
four=$three,${hosts[3]}:2
trains "$two" parallel.tp=2 parallel.dp=2 parallel.zero=1
trains "$two" parallel.pp=2 parallel.dp=2 parallel.zero=2
trains "$three" parallel.dp=6 parallel.zero=3 batch.global_sequences=12
trains "$four" parallel.dp=4 parallel.cp=2 parallel.zero=3 parallel.hsdp_shard=2

# The launcher itself hangs when it loses a host, so the test reads the reports of the ranks.
export -f across hosts_run
export PROGRAM MPIRUN shell net
setsid bash -c "across $two endless 2 $reports/rank" >"$log" 2>&1 &
job=$!
for ((i = 0; i < 300; i++)); do
  grep -q started "$log" && break
  sleep 0.1
done
ip link set "${hosts[1]}" down
for ((i = 0; i < 100; i++)); do
  [ "$(cat "$reports"/* 2>/dev/null | grep -c 'first cause')" = 4 ] && break
  sleep 0.1
done
for rank in 0 1 2 3; do
  if ! grep -q 'its deadline' "$reports/rank.$rank" ||
    ! grep -Eq 'rank [0-3] waits for rank [0-3] in all_reduce' "$reports/rank.$rank"; then
    echo "a host was cut off, but rank $rank did not end by its deadline:"
    cat "$log" "$reports"/*
    exit 1
  fi
done
# Ranks 0 and 2 share a host, and so do 1 and 3: each host has one first cause.
for pair in "0 2" "1 3"; do
  set -- $pair
  cmp -s "$reports/rank.$1" "$reports/rank.$2" ||
    { echo "one host, two causes"; cat "$reports"/*; exit 1; }
done
for rank in 0 1; do echo "cut off: $(head -1 "$reports/rank.$rank")"; done
