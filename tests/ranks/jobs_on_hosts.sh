# Sourced by scripts that run jobs on several hosts, once namespaces.sh has made the hosts: a
# folder, and looking at the jobs whose folders lie in it.
folder=$(mktemp -d)
failed=0
fail() { echo "FAILED: $*"; failed=1; }
clean() {
  ((failed == 0)) || grep -v ": saved" "$folder/log"
  remove_namespaces
  rm -rf "$folder"
}
trap clean EXIT

numbers() {
  grep '"event":"train"' "$folder/$1/metrics.jsonl" | grep -oE '"(step|loss|grad_norm)":[^,]*'
}
restart() { grep '"event":"restart"' "$folder/$1/metrics.jsonl" 2>/dev/null | tail -1; }
restarts() { grep -c '"event":"restart"' "$folder/$1/metrics.jsonl" 2>/dev/null; }
# until_has TEXT COMMAND...: waits until the output of the command has the text.
until_has() {
  local text=$1 i
  for ((i = 0; i < 1000; i++)); do
    # No pipe: a command that has more to say when grep has found the text would count as failed.
    grep -qE "$text" <("${@:2}" 2>/dev/null) && return
    sleep 0.02
  done
  fail "no \"$text\" from ${*:2}"
}
reaches() { until_has "\"train\",\"step\":$1," cat "$folder/$2/metrics.jsonl"; }
agent_on() { pgrep -f "agent --join .* --name $1"; }
ranks_on() { pgrep -P "$(agent_on "$1")"; }
