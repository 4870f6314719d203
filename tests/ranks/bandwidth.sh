#!/usr/bin/env bash
# By hand: the bandwidth of tcp between two network namespaces beside that of iperf3, in turns. The
# median of its messages of 64 MiB has at least 0.9 of that of iperf3.
# It needs tools/install_packages.sh measure.
# Usage: bandwidth.sh RANKS_PROGRAM [TURNS]. Exit code 77: skipped, or too slow while others use
# the cores.
set -u
. "$(dirname "$0")/times.sh"
program=$(realpath "$1")
turns=${2:-3}
tag=tb$((RANDOM % 1000))
a=${tag}a b=${tag}b
net=10.$((RANDOM % 200 + 20)).$((RANDOM % 250))
results=$(mktemp)
clean() {
  rm -f "$results"
  for host in $a $b; do
    for pid in $(ip netns pids $host 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
    ip netns del $host 2>/dev/null
  done
}
trap clean EXIT
skip() { echo "skipped: $1"; exit 77; }
command -v ip >/dev/null && command -v iperf3 >/dev/null || skip "ip and iperf3 are not installed"
ip netns add $a 2>/dev/null && ip netns add $b &&
  ip link add $tag netns $a type veth peer name eth0 netns $b ||
  skip "network namespaces cannot be made here"
ip -n $a addr add $net.1/24 dev $tag && ip -n $a link set $tag up && ip -n $a link set lo up
ip -n $b addr add $net.2/24 dev eth0 && ip -n $b link set eth0 up && ip -n $b link set lo up

rank() {  # rank HOST RANK: runs one of two ranks there
  ip netns exec "$1" env TRIREME_RENDEZVOUS=$net.1:4000 TRIREME_SECRET=by-hand TRIREME_EPOCH=1 \
    TRIREME_RANK="$2" TRIREME_RANKS=2 "$program" speed 60
}
ip netns exec $b iperf3 -s -D >/dev/null
for ((turn = 0; turn < turns; turn++)); do
  # The median of its quarters of a second, because the ranks print medians, too.
  ip netns exec $a iperf3 -c $net.2 -t 3 -i 0.25 -f g |
    awk '/sec/ && !/receiver|sender/ {print $7 / 8}' | sort -n |
    awk '{all[NR] = $1} END {print "iperf3", all[int((NR + 1) / 2)], "GB/s"}'
  ip netns exec $a "$program" rendezvous $net.1:4000 2 by-hand &
  rank $b 1 &
  rank $a 0
  wait
done | tee "$results"
median_of() {
  awk "$1" "$results" | sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)] + 0}'
}
ours=$(median_of '/^ *67108864 bytes/ {print $(NF - 1)}')
theirs=$(median_of '/^iperf3/ {print $2}')
awk -v ours="$ours" -v theirs="$theirs" -v turns="$turns" 'BEGIN {
  if (ours == 0 || theirs == 0) { print "FAILED: no figures"; exit 1 }
  printf "medians of %d turns: tcp %.2f GB/s, iperf3 %.2f GB/s, ratio %.3f\n", turns, ours, theirs,
         ours / theirs
  exit ours < 0.9 * theirs ? 2 : 0
}'
code=$?
((code == 2)) || exit $code
in_use_after=$(cores_in_use)
if ((in_use_before > 20 || in_use_after > 20)); then
  skip "not judged, because others took $in_use_before and $in_use_after % of the cores"
fi
echo "FAILED: less than 0.9 of iperf3"
exit 1
