# Sourced by scripts that run jobs: a folder for them, which goes with the script, and looking at
# the jobs whose folders lie in it. `failed` is the exit code.
folder=$(mktemp -d)
failed=0
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; failed=1; }

# A launcher keeps an agent, whose children are the ranks of this host.
# agent_of LAUNCHER, ranks_of LAUNCHER: their processes, the ranks in the order of their starts.
agent_of() { pgrep -P "$1" | head -n 1; }
ranks_of() {
  local agent
  agent=$(agent_of "$1")
  [[ -z $agent ]] || pgrep -P "$agent" | sort -n
}

# All numbers of all steps of a job.
numbers() {
  grep '"event":"train"' "$folder/$1/metrics.jsonl" | grep -oE '"(step|loss|grad_norm)":[^,]*'
}
restart() { grep '"event":"restart"' "$folder/$1/metrics.jsonl" 2>/dev/null | tail -1; }
restarts() { grep -c '"event":"restart"' "$folder/$1/metrics.jsonl" 2>/dev/null; }
# until_has TEXT COMMAND...: waits until the output of the command has the text.
until_has() {
  local text=$1 i
  for ((i = 0; i < 3000; i++)); do  # at least a minute
    # No pipe: a command that has more to say when grep has found the text would count as failed.
    grep -qE "$text" <("${@:2}" 2>/dev/null) && return
    sleep 0.02
  done
  fail "no \"$text\" from ${*:2}"
}
# from_parity OUT LAYOUT: true if the last restart has this layout and its state from parity, and at
# most one step is done again, or more if the job has said that its checkpoints in memory are late.
# Needs the output of the job in $folder/log.
from_parity() {
  local again='[01]'
  grep -q "the next ones are skipped until it is complete" "$folder/log" && again='[0-9]+'
  grep -qE "\"layout\":\"$2[^\"]*\",\"from\":\"parity\".*\"redone_steps\":$again," <(restart "$1")
}
# reaches STEP OUT: waits until the job has done a step.
reaches() { until_has "\"train\",\"step\":$1," cat "$folder/$2/metrics.jsonl"; }
