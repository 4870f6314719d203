#!/usr/bin/env bash
# The checks that a change must pass before it is offered: layers, format, file sizes, build, tests.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

tools/check_layers.sh
tools/check_docs.sh
tools/check_format.sh

git ls-files 'src/*.h' 'src/*.cc' 'tests/*.cc' 'bench/*.cc' | xargs wc -l |
  awk '$2 != "total" && $1 > 600 {print "over 600 lines: " $2 " (" $1 ")"}'

cmake --preset ci >/dev/null
ninja -C build/ci -j"$jobs"
[[ ! -x tools/check_isa_symbols.sh ]] || tools/check_isa_symbols.sh build/ci
ctest --test-dir build/ci -j"$jobs" --output-on-failure "$@"
