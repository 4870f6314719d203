#!/usr/bin/env bash
# `trireme launch --check` on three hosts, which are network namespaces, names the host whose link
# has 100 Mbit/s. Usage: check_hosts.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

tc qdisc add dev "${hosts[1]}" root tbf rate 100mbit burst 64kb latency 100ms ||
  { cannot "tc cannot limit a link here"; exit 77; }
"$trireme" launch "$configs/tiny-gpt2.toml" --check --set run.threads_per_rank=1 --ranks 3 \
  --set batch.global_sequences=6 \
  --hosts "${hosts[0]}:1,${hosts[1]}:1,${hosts[2]}:1" --ssh "$shell" --listen "$gateway" \
  --out "$folder/run" >"$folder/text" 2>"$folder/log"
[[ $? == 5 ]] || fail "exit code with a slow link"
grep -qE "odd +rank [0-9] on host ${hosts[1]}: link .* times less than the median" "$folder/text" ||
  fail "the slow link is not named: $(cat "$folder/text")"
(($(grep -c 'link' <(grep odd "$folder/text")) == 1)) || fail "others are named, too"
[[ -e $folder/run.check ]] && fail "a check has left its folder"
exit $failed
