#!/usr/bin/env bash
# The planner and the runtime choose the same algorithms for collectives between hosts. Jobs on one
# to four hosts, which are network namespaces, train with hardware files of two tiers: one with
# links of long latency, one with links of little bandwidth. Every rank sends the bytes that
# `trireme plan` and the run have predicted. On several hosts the two files lead to different bytes.
# Usage: hosts_choice.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 4 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

# tiers FILE LATENCY BYTES_PER_S: nodes of two ranks, and these links between them.
tiers() {
  printf '[device]\nfp32_flops = 1e11\nmemory_bytes_per_s = 1e10\n
[tiers.node]\nranks = 2\nlatency_s = 1e-6\nbytes_per_s = 8e9\n
[tiers.cluster]\nlatency_s = %s\nbytes_per_s = %s\n' "$2" "$3" >"$folder/$1.toml"
}
tiers latency 1e-2 1e10
tiers bandwidth 1e-6 1e6

# of KIND: the bytes by axis that ranks send, one rank a line, in a plan or a summary.
of() {
  grep -oE '"traffic":[{]"predicted":[{][^}]*[}](,"measured":[{][^}]*[}])?' |
    grep -oE "\"$1\":[{][^}]*[}]" | grep -oE '[{].*'
}

# trains FILE HOSTS SETTING...: adds what rank 0 sends to the file `sent`.
trains() {
  local file=$1 num=$2 list options=() setting host
  shift 2
  for ((host = 0; host < num; host++)); do list+=${list:+,}${hosts[host]}:2; done
  for setting in run.steps=2 run.threads_per_rank=1 model.layers=2 batch.global_sequences=12 \
    "$@"; do
    options+=(--set "$setting")
  done
  rm -rf "$folder/run"
  "$trireme" launch "$configs/tiny-gpt2.toml" "${options[@]}" --hosts "$list" --ssh "$shell" \
    --set run.hardware="$folder/$file.toml" --listen "$gateway" --out "$folder/run" \
    2>>"$folder/log" || { fail "the job with $file on $num hosts: $*"; return; }
  tr -d ' \n' <"$folder/run/summary.json" >"$folder/summary"
  "$trireme" plan "$configs/tiny-gpt2.toml" "${options[@]}" --cluster "$folder/$file.toml" --json \
    2>>"$folder/log" | sed '/"ranks": *\[/,$!d' | tr -d ' \n' >"$folder/plan"
  of measured <"$folder/summary" >"$folder/measured"
  (($(wc -l <"$folder/measured") == 2 * num)) || fail "ranks are missing in the summary: $*"
  cmp -s "$folder/measured" <(of predicted <"$folder/summary") ||
    fail "the run with $file on $num hosts sends other bytes than it predicts: $*"
  cmp -s "$folder/measured" <(of predicted <"$folder/plan") ||
    fail "the run with $file on $num hosts sends other bytes than the plan says: $*"
  head -1 "$folder/measured" >>"$folder/sent"
}

# differ SETTING...: both files, and they differ in what rank 0 sends.
differ() {
  rm -f "$folder/sent"
  trains latency "$@"
  trains bandwidth "$@"
  (($(sort -u "$folder/sent" | wc -l) == 2)) || fail "both files lead to the same bytes: $*"
}
trains latency 1 parallel.dp=2 parallel.zero=1
differ 2 parallel.dp=4 parallel.zero=1
differ 2 parallel.tp=4
differ 3 parallel.dp=3 parallel.tp=2
differ 4 parallel.dp=4 parallel.tp=2
exit $failed
