#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy over the named layers, or all:
# tools/check_tidy.sh [LAYER...]
# A layer is checked as one translation unit, so that a header is read once for each layer and not
# once for each file. Tests, sources of one instruction set and MPI are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy-14 >/dev/null ||
  { echo "clang-tidy-14 is missing: tools/install_packages.sh test"; exit 1; }
build=build/tidy
mkdir -p "$build/trireme"
(($# > 0)) || mapfile -t layers < <(sed -nE 's/^([a-z]+):.*/\1/p' tools/layers.txt)
(($# > 0)) && layers=("$@")

# Stand-ins for what the build generates.
cmake -DOUT="$build/trireme_report_text.h" \
      "-DFILES=$(printf '%s;' src/observe/report/*.{html,css,js})" -P tools/embed_text.cmake
cmake -DOUT="$build/trireme_cluster_text.h" -DTABLE=kClusterFiles \
      "-DFILES=$(printf '%s;' clusters/*.toml)" -P tools/embed_text.cmake
cmake -DOUT="$build/trireme_config_text.h" \
      "-DFILES=$(printf '%s;' failures/*.toml clusters/storage/*.toml)" -P tools/embed_text.cmake
echo '#define TRIREME_COMMIT ""' >"$build/trireme_commit.h"
sed -E 's/@[A-Za-z_]*@/0/g' cmake/version.h.in >"$build/trireme/version.h"

for layer in "${layers[@]}"; do
  find "src/$layer" -name '*.cc' ! -name '*_test.cc' ! -name '*_bench.cc' ! -name '*_cpu.cc' \
       ! -path '*/mpi/*' |
    LC_ALL=C sort | sed "s,.*,#include \"$PWD/&\"," >"$build/$layer.cc"
done

check() {
  local found
  found=$(clang-tidy-14 -quiet --config-file=.clang-tidy "build/tidy/$1.cc" -- -std=c++20 \
            -isystem fuzz/clang14 -Isrc -Iinclude -Ibuild/tidy '-DTRIREME_VERSION="0"' 2>&1) ||
    { grep -vE '^[0-9]+ warnings? ' <<<"$found"; return 1; }
}
export -f check
# The layers with most files first, so that none of them runs alone in the end.
for layer in "${layers[@]}"; do echo "$(wc -l <"$build/$layer.cc") $layer"; done | sort -rn |
  cut -d' ' -f2 | xargs -P "${JOBS:-$(nproc)}" -n 1 bash -c 'check "$0"' ||
  { echo "clang-tidy has found the lines above"; exit 1; }
echo "clang-tidy: ${#layers[@]} layers"
