#!/usr/bin/env bash
# A job on two hosts that `trireme launch` reaches by ssh, with a real server on each of them, loses
# a rank and a host, and has the numbers of one host.
# Usage: ssh.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$(realpath "$1")
configs=$(realpath "$2")
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || { echo "skipped: no sshd"; exit 77; }
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

mkdir -p /run/sshd "$folder/keys"
ssh-keygen -q -t ed25519 -N "" -f "$folder/keys/host"
ssh-keygen -q -t ed25519 -N "" -f "$folder/keys/user"
chmod 755 "$folder"  # sshd reads the key of the user only if others cannot write its folder
cat >"$folder/sshd_config" <<CONFIG
Port 2222
HostKey $folder/keys/host
AuthorizedKeysFile $folder/keys/user.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
CONFIG
addresses=()
for ((i = 1; i <= 3; i++)); do
  ip netns exec "${hosts[i - 1]}" "$sshd" -f "$folder/sshd_config" -E "$folder/sshd.log"
  addresses+=("${net%.0/24}.$i")
done
by_ssh="ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=$folder/known"
by_ssh+=" -o LogLevel=ERROR -p 2222 -i $folder/keys/user"
until_has yes $by_ssh "${addresses[0]}" echo yes
((failed == 0)) || { cat "$folder/sshd.log"; exit 1; }

common=(--set run.threads_per_rank=1 --set checkpoint.every=5 --set checkpoint.keep=2
        --set run.reproducible=layout --set run.steps=100000 --set run.stop_after=200
        --set model.layers=2 --set batch.global_sequences=4)
launch() { "$trireme" launch "$configs/tiny-gpt2.toml" "${common[@]}" "$@" 2>>"$folder/log"; }
launch --ranks 4 --out "$folder/calm"
[[ $? == 130 ]] || fail "the run on one host"

# The name of a key with a quote and a space must arrive as it is.
printf '%s:2\n' "${addresses[@]}" >"$folder/hostfile"
launch --out "$folder/far" --ranks 4 --hostfile "$folder/hostfile" --spares 1 --ssh "$by_ssh" \
  --listen "$gateway" --set "run.sample_prompt=it's a \"prompt\"" &
job=$!
reaches 20 far
kill -KILL "$(ranks_on "${addresses[1]}" | head -1)"
until_has 'epoch 2' "$trireme" status "$folder/far"
until_has training "$trireme" status "$folder/far"
ip link set "${hosts[1]}" down
wait $job
[[ $? == 130 ]] || fail "exit code of the run by ssh"
cmp -s <(numbers calm) <(numbers far) || fail "other numbers by ssh"
grep -qF "it's a \\\"prompt\\\"" "$folder/far/config.resolved.toml" || fail "the prompt has changed"
(($(restarts far) >= 2)) || fail "$(restarts far) restarts"
exit $failed
