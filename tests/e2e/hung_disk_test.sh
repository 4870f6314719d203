#!/usr/bin/env bash
# A disk that no longer answers ends a run within its deadline. The message names the file and the
# call, and earlier checkpoints are intact: hung_disk_test.sh TRIREME SOURCE_DIR HANG_FSYNC_LIBRARY
set -u
trireme=$1
root=$2
library=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

start() {  # OUT FILE OPTIONS...: in the background, as $pid, on a disk that hangs in fsync of FILE
  local out=$1 file=$2
  shift 2
  HANG_FSYNC_OF=$file HANG_FSYNC_WHEN=$work/$out.hangs LD_PRELOAD=$library \
    "$trireme" train "$root/configs/tiny-gpt2.toml" --set run.steps=100000 \
    --set checkpoint.every=3 \
    --set run.threads_per_rank=1 --set checkpoint.keep=4 --out "$out" "$@" 2>"$out.err" &
  pid=$!
}

# Waits for a first checkpoint; then the disk hangs.
hang() {  # OUT
  for ((i = 0; i < 1200; i++)); do
    compgen -G "$1/checkpoints/step-*/index.json" >/dev/null && break
    sleep 0.05
  done
  touch "$1.hangs"
}

# Checks that the run ends with exit code 5 and a matching message, and that its checkpoints are
# intact.
check() {  # OUT LIMIT PATTERN
  local out=$1 begin=$SECONDS code folder
  # The killer does not hold the output of the test, because ctest would wait until it has slept.
  (sleep "$2"; kill -KILL $pid) >/dev/null 2>&1 &
  local killer=$!
  wait $pid
  code=$?
  kill $killer 2>/dev/null
  echo "$out: exit $code after $((SECONDS - begin)) s: $(grep -m1 error: "$out.err")"
  [[ $code == 5 ]] || { fail "$out: exit $code"; tail -n 5 "$out.err"; }
  grep -Eq "$3" "$out.err" || { fail "$out: the cause is not said"; tail -n 5 "$out.err"; }
  for folder in "$out"/checkpoints/step-??????; do
    "$trireme" checkpoint verify "$folder" >/dev/null || fail "$out: $folder is damaged"
  done
}

sentence='has made no progress for [0-9.]+ s in fsync of .*checkpoints/step-[0-9]*.tmp[^ ]*'
# A single rank, then the first of two ranks: the deadline is checkpoint.timeout_s.
start one .safetensors --set checkpoint.timeout_s=2
hang one
check one 60 "rank 0 $sentence.*safetensors; raise checkpoint.timeout_s"
start two index.json --set checkpoint.timeout_s=2 --set parallel.dp=2 --set run.comm_timeout_s=600
hang two
check two 60 "rank 0 $sentence.*index.json; raise checkpoint.timeout_s"

# The first signal ends the run although the deadline is far away.
start asked .safetensors
hang asked
for ((i = 0; i < 600; i++)); do
  compgen -G "asked/checkpoints/*.tmp-*/*" >/dev/null && break
  sleep 0.05
done
kill -TERM $pid
check asked 60 "stopped by a signal without saving: rank 0 $sentence"

((failures == 0)) && echo "all good"
exit $((failures > 0))
