# Sourced: how long a run makes no step after a failure, and bounds for that.
# Such times say nothing about a machine that others use. So bounds count only if its cores were
# idle before the script began its work and after it.

# The share of all cores that is in use, in percent. It is asked while nothing of the script runs.
cores_in_use() {
  local before after i all=0
  before=($(head -1 /proc/stat))
  sleep 0.3
  after=($(head -1 /proc/stat))
  for ((i = 1; i <= 8; i++)); do ((all += after[i] - before[i])); done
  ((all > 0)) || all=1
  echo $((100 - 100 * (after[4] + after[5] - before[4] - before[5]) / all))
}
in_use_before=$(cores_in_use)
too_long=()

# gap RUN_FOLDER [NUMBER]: of the last failure, or of that number: the seconds from the last step
# before it to the next step, and those until it was detected.
gap() {
  grep -h '"event":"restart"' "$1/metrics.jsonl" | sed -n "${2:-\$}p" |
    sed -E 's/.*"detect":([0-9.]*).*"first_step":([0-9.]*).*/\1 \2/' |
    awk '{ printf "%.2f %.2f", ($1 + $2) / 1e3, $1 / 1e3 }'
}
# tell_gap WHAT RUN_FOLDER [NUMBER [BOUND]]: prints the gap, which is at most so many seconds.
tell_gap() {
  local times
  times=($(gap "$2" "${3:-}"))
  ((${#times[@]} == 2)) || { fail "$1: no time of a recovery"; return; }
  echo "$1: training again after ${times[0]} s, detected after ${times[1]} s"
  if [[ -n ${4:-} ]] && awk "BEGIN {exit !(${times[0]} > $4)}"; then
    too_long+=("$1: ${times[0]} s instead of at most $4 s")
  fi
}
# Fails for each time that was too long.
judge_times() {
  local in_use_after
  ((${#too_long[@]} > 0)) || return
  in_use_after=$(cores_in_use)
  if ((in_use_before > 20 || in_use_after > 20)); then
    echo "not judged, because others took $in_use_before and $in_use_after % of the cores:" \
      "${too_long[*]}"
    return
  fi
  fail "${too_long[*]}"
}
