#!/usr/bin/env bash
# `trireme launch --check` compares the ranks of a run. It names a rank that gets a tenth of a core,
# and a host behind a slow link. Usage: check.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"
cgroup=/sys/fs/cgroup/cpu/trireme-check
[[ -f /sys/fs/cgroup/cgroup.controllers ]] && cgroup=/sys/fs/cgroup/trireme-check
trap 'rmdir $cgroup 2>/dev/null; rm -rf "$folder"' EXIT

check=("$trireme" launch "$configs/tiny-gpt2.toml" --check --set run.threads_per_rank=1
       --set batch.global_sequences=6)

# On a machine that others use, a rank may be slow by chance. Then the report names it.
"${check[@]}" --ranks 3 --out "$folder/run" --json >"$folder/json" 2>"$folder/log"
code=$?
[[ $code == 0 && $(grep -c '"good": true' "$folder/json") == 1 ||
   $code == 5 && $(grep -c '"factor"' "$folder/json") -ge 1 ]] ||
  fail "exit code $code: $(cat "$folder/log" "$folder/json")"
for key in '"flops_per_s"' '"memory_bytes_per_s"' '"disk_bytes_per_s"' '"latency_s"'; do
  (($(grep -c "$key" "$folder/json") == 3)) || fail "the report has not three of $key"
done
[[ -e $folder/run || -e $folder/run.check ]] && fail "a check has left a folder"

mkdir $cgroup 2>/dev/null
if [[ -w $cgroup/cpu.max || -w $cgroup/cpu.cfs_quota_us ]]; then
  "${check[@]}" --ranks 3 --out "$folder/slow" >"$folder/text" 2>"$folder/log" &
  job=$!
  for ((i = 0; i < 200; i++)); do
    pids=($(ranks_of $job))
    ((${#pids[@]} == 3)) && break
    sleep 0.005
  done
  { echo "10000 100000" >$cgroup/cpu.max || echo 10000 >$cgroup/cpu.cfs_quota_us; } 2>/dev/null
  echo "${pids[1]}" >$cgroup/cgroup.procs
  wait $job
  [[ $? == 5 ]] || fail "exit code with a slow rank"
  grep -qE 'odd +rank 1 on host .*: compute .* times less than the median' "$folder/text" ||
    fail "the slow rank is not named: $(cat "$folder/text" "$folder/log")"
else
  echo "the rank with a tenth of a core: skipped, no cgroup can be made"
fi

"$trireme" launch "$configs/tiny-gpt2.toml" --json >/dev/null 2>"$folder/log" &&
  fail "--json without --check is taken"
exit $failed
