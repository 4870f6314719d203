#!/usr/bin/env bash
# The whole test suite: layers, pages, format, clang-tidy, then the tests under each
# preset, then short fuzzing.
# tools/test.sh [all]: with `all`, the tests labelled slow run too, the address sanitizer takes
# every layout of tests/parity, the thread sanitizer the layers that train, each fuzz target two
# minutes, and each file is compiled alone.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
tests_at_once=$((jobs + 1))  # because many of them wait
skip=(--label-exclude slow)
[[ ${1:-} == all ]] && skip=()
logs=build/test-logs
mkdir -p "$logs"
rm -f "$logs"/*.log
rows=()
total=0
failed=0

row() {  # name, tests, failures, seconds
  rows+=("$(printf '%-34s %6s tests %5s failed %7s s' "$@")")
  total=$((total + $2))
  failed=$((failed + $3))
}

# step NAME COMMAND...: runs a step that counts as one test.
step() {
  local name=$1 begin=$SECONDS bad=0
  shift
  echo "== $name"
  "$@" || bad=1
  row "$name" 1 $bad $((SECONDS - begin))
  return $bad
}

# preset NAME FOLDER-OF-TESTS CTEST-OPTIONS...: configures, builds and runs ctest.
preset() {
  local name=$1 folder=$2 begin=$SECONDS
  shift 2
  step "$name: build" build "$name" || return
  begin=$SECONDS
  echo "== $name: ctest"
  ctest --test-dir "$folder" -j"$tests_at_once" --output-on-failure --no-tests=error "$@" 2>&1 |
    tee "$logs/$name.log"
  local line
  line=$(grep -E 'tests? failed out of' "$logs/$name.log" | tail -n 1)
  if [[ $line =~ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    row "$name: ctest" "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}" $((SECONDS - begin))
  else
    row "$name: ctest" 1 1 $((SECONDS - begin))
  fi
}

build() {
  cmake --preset "$1" >"$logs/$1-configure.log" || { cat "$logs/$1-configure.log"; return 1; }
  local targets=()
  [[ $1 == fuzz ]] && targets=(fuzzers)      # the parsers alone
  [[ $1 == tsan* ]] && targets=(layer_tests)  # of the layers that run threads
  ninja -C "build/${1%-all}" -j"$jobs" "${targets[@]}"
}

step "layers" tools/check_layers.sh
step "pages" tools/check_docs.sh
step "format" tools/check_format.sh
step "clang-tidy" tools/check_tidy.sh
preset ci build/ci "${skip[@]}"
# The other presets compile a layer as one file, which hides an include that is missing.
[[ ${1:-} == all ]] && step "each file alone: build" build alone
[[ -x tools/check_isa_symbols.sh ]] && step "instruction sets" tools/check_isa_symbols.sh build/ci
# Under the address sanitizer a pairwise cover of the layouts stands for all of them. Programs are
# not compiled, planned or exported for thousands of layouts, no published table is priced, and no
# search is compared with brute force or an integer program. In the build before, sweeps are
# compared, runs are laid out anew and broken off and resumed, packages are made, hosts are lost,
# storms survived, hanging ranks blamed, ranks under MPI trained, and the tutorials and the course
# followed.
in_dev=("${skip[@]}")
done_in_ci='rules|compile|planner|planner_long|autoparallel|golden'
done_in_ci+='|(api|cli|jobs|kernels|models|predict|serving|session|store|train)_long'
done_in_ci+='|parity|parity_of_(meshes|random_layouts|redistributions)|ranks_net|ranks_train'
done_in_ci+='|ranks_launch_(train|lost_agent|uneven_stages|leaders|mpirun)'
done_in_ci+='|ranks_launch_(hosts|hosts_memory|hosts_apart|hosts_hang|hosts_history)'
done_in_ci+='|ranks_launch_(watchdog|check|check_hosts|storm|crash_points|survives|bad_batch)'
done_in_ci+='|ranks_launch_(goes_back|hosts_choice|lost_folder|slurm)'
done_in_ci+='|tutorial_.*|course_.*|package|install|browser|reproduce|e2e_(resume|cli)_test'
dev=dev-all
[[ ${1:-} == all ]] || { dev=dev; in_dev+=(--exclude-regex "^($done_in_ci)\$"); }
preset $dev build/dev "${in_dev[@]}"
# Long tests are left out; with `all`, only those of one thread. The others run one at a time,
# because a thread sanitizer that shares cores with another misses races.
tsan=tsan
in_tsan=("${skip[@]}" --exclude-regex '_long$')
[[ ${1:-} == all ]] && { tsan=tsan-all; in_tsan=(--exclude-regex '^(checkpoint|planner)_long$'); }
preset $tsan build/tsan -j1 "${in_tsan[@]}"
preset fuzz build/fuzz/fuzz "${skip[@]}"

echo
echo "== summary"
printf '%s\n' "${rows[@]}"
grep -hE '^[[:space:]]+[0-9]+ - .*\((Failed|Timeout|SEGFAULT|Not Run|Subprocess aborted)' \
  "$logs"/{ci,dev,dev-all,tsan,tsan-all,fuzz}.log 2>/dev/null
echo "all of it took ${SECONDS} s"
echo "$((total - failed)) passed, $failed failed"
((failed == 0))
