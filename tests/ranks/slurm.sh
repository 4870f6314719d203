#!/usr/bin/env bash
# The batch script of docs/several_hosts.md for Slurm, with a srun that starts agents on network
# namespaces and sets the variables that Slurm sets: the job has the numbers of one host. Then a
# node fails, whose place a spare one takes, and a job is stopped before the end of its time.
# Usage: slurm.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$(realpath "$1")
configs=$(realpath "$2")
page=$(realpath "$(dirname "$0")/../../docs/several_hosts.md")
command -v openssl >/dev/null || { echo "skipped: no openssl"; exit 77; }
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"
clean_hosts() {
  local host
  ((failed == 0)) || cat "$folder/job"
  clean
  for host in "${hosts[@]}"; do rm -rf "/etc/netns/$host"; done
}
trap clean_hosts EXIT

# Nodes know each other by name.
for ((i = 0; i < 3; i++)); do printf '%s\t%s\n' "${net%.0/24}.$((i + 1))" "${hosts[i]}"; done \
  >"$folder/hosts"
for host in "${hosts[@]}"; do
  mkdir -p "/etc/netns/$host"
  cat /etc/hosts "$folder/hosts" >"/etc/netns/$host/hosts"
done

mkdir "$folder/bin"
ln -s "$trireme" "$folder/bin/trireme"
# Starts one task on every node of the job. Its exit code is the greatest of the tasks. A task that
# is killed ends no other one.
cat >"$folder/bin/srun" <<SRUN
#!/bin/bash
[[ \$1 == --ntasks-per-node=1 ]] || { echo "srun: unknown option \$1" >&2; exit 1; }
shift
nodes=(\${SLURM_JOB_NODELIST//,/ })
tasks=()
for id in "\${!nodes[@]}"; do
  SLURM_PROCID=\$id SLURM_NODEID=\$id SLURM_LOCALID=0 SLURM_NTASKS=\${#nodes[@]} SLURM_STEP_ID=0 \\
    SLURMD_NODENAME=\${nodes[id]} PMI_RANK=\$id PMI_SIZE=\${#nodes[@]} \\
    "$shell" "\${nodes[id]}" "\$@" </dev/null &
  tasks+=(\$!)
done
worst=0
for task in "\${tasks[@]}"; do
  wait "\$task"
  code=\$?
  ((code > worst)) && worst=\$code
done
echo "srun: \$worst"
exit \$worst
SRUN
chmod +x "$folder/bin/srun"

sed -e 's/^layers = .*/layers = 1/' -e 's/^global_sequences = .*/global_sequences = 4/' \
  -e '/^steps = /d' "$configs/tiny-gpt2.toml" >"$folder/RUN.toml"
cat >>"$folder/RUN.toml" <<TOML
steps = 100000
stop_after = 150
threads_per_rank = 1
reproducible = "layout"
[checkpoint]
every = 5
keep = 2
TOML
cd "$folder"
"$trireme" launch RUN.toml --ranks 4 --out calm 2>"$folder/log"
[[ $? == 130 ]] || fail "the run on one host"

# batch OUT NODES [LAUNCH-OPTION...]: the script of the page on the first of the first nodes of the
# cluster, in the background.
batch() {
  local nodes=("${hosts[@]:0:$2}")
  sed -n '/^\*\*Under Slurm/,/^\*\*By hand/s/^    //p' "$page" |
    sed "s|--ranks 16|--ranks 4 ${*:3}|; s|--agents 2|--agents $2|; s|my/run|$1|" >"$folder/job"
  grep -q '^srun ' "$folder/job" || fail "the page has no srun"
  echo 'exit $?' >>"$folder/job"  # of the wait
  SLURM_JOB_NODELIST=$(IFS=,; echo "${nodes[*]}") PATH=$folder/bin:$PATH \
    "$shell" "${nodes[0]}" "cd $folder && bash job" >"$folder/$1.out" 2>>"$folder/log" &
  job=$!
}
agent_on() { pgrep -f "^[^ ]*trireme agent --join [^ ]*" | while read -r pid; do
  [[ $(ip netns identify "$pid") == "$1" ]] && echo "$pid"; done; }
same_numbers() { cmp -s <(numbers calm) <(numbers "$1") || fail "$1 has other numbers"; }

# Two nodes.
batch two 2
wait $job
same_numbers two
grep -q '^srun: 0$' "$folder/two.out" || fail "agents end with $(<"$folder/two.out")"
(($(restarts two) == 0)) || fail "$(restarts two) restarts without a failure"

# Three nodes, one of them spare: the agent of a node that trains is killed.
batch lost 3 --spares 1
reaches 20 lost
until_has training "$trireme" status lost
node=$("$trireme" status lost | awk '/^host .* in use/ {print $2}' | tail -1)
kill -KILL $(agent_on "$node")
until_has "host $node +gone" "$trireme" status lost
wait $job
same_numbers lost
(($(restarts lost) >= 1)) || fail "no restart after a node has failed"

# Somebody ends the job before its time limit.
batch stopped 2 --set run.stop_after=100000
reaches 20 stopped
"$trireme" stop stopped >/dev/null || fail "stop"
wait $job
last=$(grep -oE '"train","step":[0-9]+' stopped/metrics.jsonl | tail -1 | grep -oE '[0-9]+')
((last < 100000)) || fail "the job was not stopped"
[[ -d stopped/checkpoints/step-$(printf %06d "$last") ]] || fail "step $last was not saved"
exit $failed
