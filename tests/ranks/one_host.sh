#!/usr/bin/env bash
# By hand: two ranks of one host over the transport tcp, which share memory, beside the same ranks
# over MPI, whose window is shared, too. They take turns. Of each size, the median time of an
# all-reduce of MPI's ranks is at least 0.95 times that of tcp's: so tcp has 0.95 of its speed.
# Messages between two ranks are printed beside it.
# Usage: one_host.sh RANKS_PROGRAM MPIRUN [TURNS]
set -uo pipefail
program=$1
source "${0%/*}/mpirun.sh" "$1" "$2"
turns=${3:-25}
results=$(mktemp)
trap 'rm -f "$results"' EXIT

for ((turn = 0; turn < turns; turn++)); do
  order=(tcp mpi)
  ((turn % 2 == 0)) || order=(mpi tcp)
  for backend in "${order[@]}"; do
    command=("${launch[@]}" -n 2 "$program")
    [[ $backend == mpi ]] || command=("$program" launch 2)
    timeout 60 "${command[@]}" speed 60 | sed "s/^/$backend /" >>"$results" || exit 1
  done
done
# Fields: backend BYTES bytes: all_reduce T us, ring T us, there and back T us, there R GB/s
awk -v turns="$turns" '
  function median(list, n, i, j, t) {
    for (i = 2; i <= n; i++) {
      t = list[i]
      for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]
      list[j + 1] = t
    }
    return list[int((n + 1) / 2)]
  }
  function of(backend, bytes, what, list, n) {
    for (n = 1; (backend, bytes, what, n) in all; n++) list[n] = all[backend, bytes, what, n]
    return median(list, n - 1)
  }
  {
    n = ++number[$1, $2]
    if ($1 == "tcp" && n == 1) sizes[++num_sizes] = $2
    all[$1, $2, "all_reduce", n] = $5
    all[$1, $2, "back", n] = $13
    all[$1, $2, "there", n] = $16
  }
  END {
    for (s = 1; s <= num_sizes; s++) {
      b = sizes[s]
      t = of("tcp", b, "all_reduce"); m = of("mpi", b, "all_reduce")
      bad = m < 0.95 * t
      failed += bad
      printf "%9d bytes, medians of %d turns, tcp and mpi: all_reduce %.2f and %.2f us (speed " \
             "%.2f%s), there and back %.1f and %.1f us, there %.2f and %.2f GB/s\n", b, turns, t, m,
             m / t, bad ? ", FAILED: below 0.95" : "", of("tcp", b, "back"), of("mpi", b, "back"),
             of("tcp", b, "there"), of("mpi", b, "there")
    }
    exit failed > 0 || num_sizes == 0
  }' "$results"
