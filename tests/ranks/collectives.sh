#!/bin/bash
# Tests every collective over processes: 1 to 4 ranks, oversubscribed. Usage: PROGRAM MPIRUN
set -eu
. "$(dirname "$0")/mpirun.sh"
for count in 1 2 3 4; do
  ranks "$count" collectives
  ranks "$count" groups
done
