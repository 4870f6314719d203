#!/usr/bin/env bash
# Runs the measurements that need a machine for themselves, one after the other: bandwidth and
# collectives, the stall of checkpoints in memory, and what surviving and checks cost. Each one has
# a bound. Their outputs lie in build/measurements.
# tools/measure.sh [NAME...]: only these.
set -uo pipefail
cd "$(dirname "$0")/.."
names=("$@")
known=(bandwidth one_host stall cost_of_surviving cost_of_checks)
((${#names[@]} > 0)) || names=("${known[@]}")
for name in "${names[@]}"; do
  [[ " ${known[*]} " == *" $name "* ]] ||
    { echo "measure.sh: there is no measurement $name; there are ${known[*]}" >&2; exit 2; }
done
cmake --preset ci >/dev/null && ninja -C build/ci -j"${JOBS:-$(nproc)}" trireme ranks_program ||
  exit 1
trireme=build/ci/trireme
ranks=$(find build/ci -name ranks_program -type f)
results=build/measurements
mkdir -p "$results"
rows=()
failed=0
for name in "${names[@]}"; do
  case $name in
    bandwidth) arguments=("$ranks") ;;
    one_host) arguments=("$ranks" "$(command -v mpirun.openmpi || command -v mpirun)") ;;
    *) arguments=("$trireme" configs) ;;
  esac
  echo "== $name"
  tests/ranks/"$name".sh "${arguments[@]}" 2>&1 | tee "$results/$name.txt"
  code=${PIPESTATUS[0]}
  case $code in
    0) verdict="within its bound" ;;
    77) verdict="skipped, or others used the cores" ;;
    *) verdict="not within its bound, or failed" failed=1 ;;
  esac
  rows+=("$(printf '%-20s %s' "$name" "$verdict")")
done
printf '\n'
printf '%s\n' "$(git log -1 --format=%h) $(date -u +%F)" "${rows[@]}" | tee "$results/summary.txt"
exit $failed
