# Sourced by scripts that run jobs on several hosts, once namespaces.sh has made the hosts: a
# folder, and looking at the jobs whose folders lie in it.
. "$(dirname "$0")/job_folder.sh"
clean() {
  ((failed == 0)) || grep -v ": saved" "$folder/log"
  remove_namespaces
  rm -rf "$folder"
}
trap clean EXIT

agent_on() { pgrep -f "agent --join .* --name $1"; }
ranks_on() { pgrep -P "$(agent_on "$1")"; }
