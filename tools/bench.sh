#!/usr/bin/env bash
# Runs the benchmarks and prints one table each. Rows have the machine, the command, figures and
# ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
cmake --preset ci >/dev/null
ninja -C build/ci -j"$jobs"
mkdir -p build/bench-results
# Compares with oneDNN's products if it is installed.
kernels=(build/ci/trireme bench kernels)
[[ -x build/ci/bench/kernels_bench ]] && kernels=(build/ci/bench/kernels_bench)
"${kernels[@]}" "$@" | tee build/bench-results/kernels.txt
build/ci/bench/simulate_bench | tee build/bench-results/simulate.jsonl
build/ci/bench/checkpoint_bench | tee build/bench-results/checkpoint.txt
bench/train_bench.sh build/ci | tee build/bench-results/train.txt
bench/ranks_bench.sh build/ci | tee build/bench-results/ranks.txt
# It writes tens of GiB; a figure that misses its bound ends it with 1.
WORK="$PWD/build" bench/store_bench.sh build/ci | tee build/bench-results/store.txt
