#!/bin/bash
# A failing rank ends all ranks with the first cause and never with a hang. Usage: PROGRAM MPIRUN
# [KILLS]
set -u
. "$(dirname "$0")/mpirun.sh"
kills=${3:-20}
failed=0

# expect NAME RANKS PATTERN ARG...: the job must fail, and the report of some rank must match.
expect() {
  local name=$1 count=$2 pattern=$3 output code
  shift 3
  output=$(ranks "$count" "$@" 2>&1)
  code=$?
  if [ $code -eq 0 ] || [ $code -eq 124 ] || ! grep -Eq "$pattern" <<<"$output"; then
    echo "$name: exit $code, no report matches '$pattern':"
    echo "$output"
    failed=1
  fi
}

expect thrown 3 'first cause: rank 1: the device is gone' thrown
expect mismatched 2 'rank 0 is in broadcast\(root 1.*rank 1 is in broadcast\(root 0' mismatched
expect silent 3 'rank 2 waits for nobody' silent 3
for ((i = 0; i < kills; i++)); do
  count=$((2 + i % 3))
  expect "killed $i" "$count" \
    "first cause: rank $((count - 1)): rank $((count - 1)) has died" killed
done
# Between hosts a dead rank is known by its connections, in whatever call the others are.
if [[ $MPIRUN == launch ]]; then
  for collective in all_reduce reduce broadcast scatter gather all_gather reduce_scatter \
    all_to_all barrier; do
    expect "killed in $collective" 3 'rank 2 has died.*its connection with rank [01] \(127' \
      "killed_in_$collective"
  done
fi
exit $failed
