# Separate hosts for the scripts of this folder: network namespaces joined by a bridge. It is
# sourced. Afterwards `hosts` has their names, `net` is their network, `gateway` the address of this
# host in it, and `shell` a command in place of ssh. With `own_cores=1`, host i runs on one core
# only, so that hosts do not compete for cores.
hosts=()
tag=tr$((RANDOM % 1000))
net=10.$((RANDOM % 200 + 20)).$((RANDOM % 250)).0/24
gateway=${net%.0/24}.254
shell=$(mktemp)
own_cores=${own_cores:-0}

remove_namespaces() {
  local host pid
  for host in "${hosts[@]}"; do
    for pid in $(ip netns pids "$host" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
    ip netns del "$host" 2>/dev/null
    ip link del "$host" 2>/dev/null
  done
  ip link del "$tag" 2>/dev/null
  rm -f "$shell"
}

cannot() {
  echo "skipped: $1"
  return 1
}

# make_namespaces NUMBER RATE: links are limited to that rate, such as 200mbit; "": not limited.
make_namespaces() {
  local i host
  command -v ip >/dev/null && command -v tc >/dev/null ||
    { cannot "ip and tc are not installed"; return; }
  ip link add "$tag" type bridge 2>/dev/null ||
    { cannot "network namespaces cannot be made here"; return; }
  ip addr add "$gateway/24" dev "$tag" && ip link set "$tag" up || { cannot "no bridge"; return; }
  for ((i = 1; i <= $1; i++)); do
    host=${tag}h$i
    ip netns add "$host" 2>/dev/null ||
      { cannot "network namespaces cannot be made here"; return; }
    hosts+=("$host")
    # The kernel of this machine forwards every frame, and a short frame costs it as much as a long
    # one. So frames are as long as in a cluster.
    ip link add "$host" mtu 9000 type veth peer name eth0 mtu 9000 netns "$host" &&
      ip link set "$host" master "$tag" up &&
      ip -n "$host" addr add "${net%.0/24}.$i/24" dev eth0 &&
      ip -n "$host" link set eth0 up && ip -n "$host" link set lo up ||
      { cannot "no veth links"; return; }
    [[ -z $2 ]] && continue
    tc qdisc add dev "$host" root tbf rate "$2" burst 64kb latency 100ms 2>/dev/null &&
      tc -n "$host" qdisc add dev eth0 root tbf rate "$2" burst 64kb latency 100ms 2>/dev/null ||
      { cannot "tc cannot limit a link here"; return; }
  done
}

# Runs the command in the namespace of that host, under its name.
{ echo '#!/bin/bash'; echo "own_cores=$own_cores"; } >"$shell"
cat >>"$shell" <<'SHELL'
while [[ $1 == -* ]]; do shift; done
host=$1
shift
if ((own_cores)); then
  # Cores may be given as 0,2-5.
  IFS=, read -ra ranges <<<"$(taskset -pc $$ | sed 's/.*: //')"
  cores=()
  for range in "${ranges[@]}"; do cores+=($(seq "${range%-*}" "${range#*-}")); done
  taskset -pc "${cores[$(((${host##*h} - 1) % ${#cores[@]}))]}" $$ >/dev/null || exit 1
fi
exec ip netns exec "$host" unshare -u bash -c "hostname $host; $*"
SHELL
chmod +x "$shell"
