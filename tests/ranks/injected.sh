#!/usr/bin/env bash
# Injects failures into real runs and prints how each is classified. A wrong class fails, and so
# does "unknown" where the class can be known. Usage: injected.sh TRIREME CONFIGS
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/job_folder.sh"
mkdir "$folder/disk"
cgroup=/sys/fs/cgroup/memory/trireme-injected
[[ -f /sys/fs/cgroup/cgroup.controllers ]] && cgroup=/sys/fs/cgroup/trireme-injected
trap 'umount "$folder/disk" 2>/dev/null; rmdir $cgroup 2>/dev/null; rm -rf "$folder"' EXIT
run=("$trireme" launch "$configs/tiny-gpt2.toml" --ranks 2 --set run.threads_per_rank=1
     --set checkpoint.every=10 --set checkpoint.keep=1)

# begin NAME [OPTION...]: a run in the background; sets agent and out, once it has done ten steps.
begin() {
  out=$folder/$1
  "${run[@]}" --out "$out" --set run.steps=100000 "${@:2}" 2>"$folder/log" &
  agent=$!
  for ((i = 0; i < 400; i++)); do
    grep -q '"train","step":10,' "$out/metrics.jsonl" 2>/dev/null && "$trireme" status "$out" \
      &>/dev/null && break
    sleep 0.05
  done
}
pid_of() {
  "$trireme" status "$out" --json | grep -oE "\"rank\":$1,[^}]*\"pid\":[0-9]+" | grep -oE '[0-9]+$'
}
finish() {
  for ((i = 0; i < 200; i++)); do
    compgen -G "$out/failures/*/evidence.json" >/dev/null && break
    sleep 0.05
  done
  sleep 0.5
  kill -INT $agent 2>/dev/null
  wait $agent
}
# classified NAME CLASS: the first failure of the run has this class.
classified() {
  local got
  got=$("$trireme" failures "$out" --json | grep -m 1 '"class"' | sed 's/.*: "\(.*\)",*/\1/')
  printf '%-28s %-14s %s\n' "$1" "$2" "${got:-no record}"
  [[ $got == "$2" ]] || failed=1
}
printf '%-28s %-14s %s\n' injected expected classified
signal() {
  begin "$1"
  kill -"$1" "$(pid_of 1)"
  finish
  classified "SIG$1" "$2"
}
signal STOP hang
signal SEGV 'user program'
signal ABRT 'user program'
signal FPE 'user program'
signal ILL 'user program'
signal KILL unknown
signal BUS unknown

# The kernel ends rank 1, which it is told to choose first, when another process takes the memory.
if mkdir $cgroup 2>/dev/null; then
  limit=$cgroup/memory.limit_in_bytes
  [[ -f $limit ]] || limit=$cgroup/memory.max
  begin oom
  for pid in $(ranks_of $agent) $(agent_of $agent) $agent; do
    echo "$pid" >$cgroup/cgroup.procs
  done
  echo 1000 >"/proc/$(pid_of 1)/oom_score_adj"
  echo $((96 << 20)) >"$limit"
  (echo $BASHPID >$cgroup/cgroup.procs; head -c 95M /dev/zero | tail -c 94M >/dev/null)
  finish
  classified 'out of memory (cgroup)' 'host memory'
else
  echo 'out of memory (cgroup): skipped, no cgroup can be made'
fi

if mount -t tmpfs -o size=6m tmpfs "$folder/disk" 2>/dev/null; then
  begin disk/run --set run.steps=400 --set checkpoint.at_end=true
  dd if=/dev/zero of="$folder/disk/full" bs=64k 2>/dev/null
  wait $agent
  rm "$folder/disk/full"
  classified 'full disk (tmpfs)' 'disk full'
else
  echo 'full disk: skipped, no tmpfs can be mounted'
fi

out=$folder/diverged
"${run[@]}" --out "$out" --set optim.lr=1e30 2>"$folder/log"
classified 'run that diverges' numbers

out=$folder/STOP
"${run[@]}" --out "$out" --resume auto --set model.layers=3 2>"$folder/log"
rm -rf "$out/metrics.jsonl" "$out/agent.json" "$out/failures/001"
classified 'other model on resume' 'user program'
exit $failed
