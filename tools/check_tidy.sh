#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy over all layers: tools/check_tidy.sh [LAYER...]
# A layer is one translation unit, so that every header is read once for each layer and not once
# for each file. Tests, sources of one instruction set and MPI are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
tidy=$(command -v clang-tidy-14) ||
  { echo "clang-tidy-14 is missing: tools/install_packages.sh test"; exit 1; }
jobs=${JOBS:-$(nproc)}
build=build/tidy
mkdir -p "$build/trireme"

# What the build generates, as the preset ci does; the checks need no more than that it can be read.
cmake -DOUT="$build/trireme_report_text.h" \
      "-DFILES=$(printf '%s;' src/observe/report/*.{html,css,js})" -P tools/embed_text.cmake
echo '#define TRIREME_COMMIT ""' >"$build/trireme_commit.h"
sed -E 's/@[A-Za-z_]*@/0/g' cmake/version.h.in >"$build/trireme/version.h"

if (($# == 0)); then
  mapfile -t layers < <(sed -nE 's/^([a-z]+):.*/\1/p' tools/layers.txt)
  set -- "${layers[@]}"
fi
for layer in "$@"; do
  find "src/$layer" -name '*.cc' ! -name '*_test.cc' ! -name '*_bench.cc' ! -name '*_cpu.cc' \
       ! -path '*/mpi/*' |
    LC_ALL=C sort | sed "s,.*,#include \"$PWD/&\"," >"$build/$layer.cc"
done

# The longest first.
wc -c "${@/#/src/}" >/dev/null 2>&1 || true
for layer in "$@"; do echo "$(cat src/"$layer"/*.cc 2>/dev/null | wc -l) $layer"; done | sort -rn |
  sed 's/.* //' |
  xargs -P "$jobs" -I{} sh -c '
    out=$('"$tidy"' -quiet --config-file=.clang-tidy build/tidy/{}.cc -- -std=c++20 \
            -isystem fuzz/clang14 -Isrc -Iinclude -Ibuild/tidy -DTRIREME_VERSION=\"0\" 2>&1) && exit 0
    printf "%s\n" "$out" | grep -vE "^[0-9]+ warnings? (generated|treated)"
    exit 1'
echo "clang-tidy: $# layers"
