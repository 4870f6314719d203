#!/usr/bin/env bash
# Every cause of a failure has one exit code, on every rank and in every repetition, and a failed
# save leaves no temporary folder: exit_codes_test.sh TRIREME SOURCE_DIR [REPETITIONS] [MPIRUN]
set -u
trireme=$1
root=$2
repetitions=${3:-4}
mpirun=${4:-}
work=$(mktemp -d)
small=$work/small
clean() {
  mountpoint -q "$small" && umount "$small"
  rm -rf "$work"
}
trap clean EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

config=("$root/configs/tiny-gpt2.toml" --set run.steps=4 --set checkpoint.every=1
        --set run.threads_per_rank=1 --set parallel.dp=2 --set run.tensorboard=false)

# A failed run has exit code 4, has printed the reason, and has left no temporary file or folder.
check() {  # WHAT CODE OUT: CODE may be 0, where nothing was hit
  local what=$1 code=$2 out=$3 left
  counts[$code]=$((${counts[$code]:-0} + 1))
  [[ $code == 0 || $code == 4 ]] || { fail "$what: exit $code"; tail -n 3 "$out.err"; }
  left=$(find "$out" -name '*tmp*' 2>/dev/null)
  [[ -z $left ]] || fail "$what: exit $code leaves $left"
}

summary() {  # WHAT
  local code text=
  for code in "${!counts[@]}"; do text+=" ${counts[$code]} times $code"; done
  echo "$1: exit codes:$text"
  [[ -n ${counts[4]:-} ]] || fail "$1: no repetition was hit"
}

# Makes calls fail at random with the error of the cause: either mostly, so that the start of a run
# is hit, or rarely, to hit a later save. A run survives a save that fails once.
probabilities=(0.9 0.05 0.02 0.2)
inject() {  # WHAT CALL ERRNO
  local what=$1 i
  declare -A counts=()
  for ((i = 0; i < repetitions; i++)); do
    fiu-run -x -c "enable_random name=$2,probability=${probabilities[i % 4]},failinfo=$3" \
      "$trireme" train "${config[@]}" --out "run-$i" 2>"run-$i.err"
    check "$what, repetition $i" $? "run-$i"
    rm -rf "run-$i"
  done
  summary "$what"
}
if command -v fiu-run >/dev/null; then
  inject 'disk full (write)' posix/io/rw/write 28
  inject 'disk full (fsync)' posix/io/sync/fsync 28
  inject 'input or output error' posix/io/sync/fsync 5
  inject 'no permission' posix/io/dir/rename 1
  inject 'read-only file system' posix/io/dir/rename 30
else
  echo "skipped: fiu-run is not installed, so no call is made to fail"
fi

# Mounts a file system of a few hundred KiB, which fills up at a different place each time.
fill() {  # WHAT COMMAND...
  local what=$1 i
  shift
  declare -A counts=()
  for ((i = 0; i < repetitions; i++)); do
    mount -t tmpfs -o "size=$((200 + i * 97 % 1500))k" trireme "$small" || return
    "$@" train "${config[@]}" --out "$small/run" 2>"$work/run.err"
    local code=$?
    mv "$work/run.err" "$small/run.err" 2>/dev/null
    check "$what, repetition $i" $code "$small/run"
    umount "$small"
  done
  summary "$what"
}
mkdir -p "$small"
if mount -t tmpfs -o size=1m trireme "$small" 2>/dev/null; then
  umount "$small"
  fill 'small disk, ranks as threads' "$trireme"
  if [[ -n $mpirun ]]; then
    source "$root/tests/ranks/mpirun.sh" "$trireme" "$mpirun"
    fill 'small disk, ranks as processes' "${launch[@]}" -n 2 "$trireme"
  fi
else
  echo "skipped: no small file system can be mounted here"
fi

# Tests one case of each other cause.
expect() {  # CODE WHAT COMMAND...
  local code=$1 what=$2 got
  shift 2
  "$@" >out.txt 2>err.txt
  got=$?
  [[ $got == "$code" ]] || { fail "$what: exit $got instead of $code"; cat err.txt; }
}
train=("$trireme" train "${config[@]}")
expect 2 'wrong configuration' "${train[@]}" --set parallel.dp=0 --out a
expect 2 'wrong usage' "${train[@]}" --no-such-option
expect 3 'does not fit' "${train[@]}" --set memory.limit_bytes=1000 --out a
expect 2 'missing file' "$trireme" train none.toml
expect 2 'missing file' "${train[@]}" --set data.source=files --set data.train=none.tok --out a
expect 2 'missing file' "${train[@]}" --set data.tokenizer=none.json --out a
expect 2 'missing file' "${train[@]}" --set run.hardware=none.toml --out a
expect 2 'missing file' "$trireme" tokenizer encode none.txt --tokenizer byte
expect 2 'missing checkpoint' "${train[@]}" --resume none --out a
expect 2 'missing checkpoint' "$trireme" generate --checkpoint none -p a -n 1
expect 2 'missing checkpoint' "$trireme" checkpoint import none --out a
expect 4 'folder that cannot be made' "${train[@]}" --out /proc/none/a
expect 130 'run.stop_after' "${train[@]}" --set run.stop_after=2 --out stopped
shard=$(find stopped -name '*.safetensors' | sort | tail -n 1)
printf 'xyz' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") / 2)) conv=notrunc status=none
expect 4 'damaged file' "$trireme" checkpoint verify stopped
rm "$shard"
expect 4 'file missing in a checkpoint' "$trireme" checkpoint verify "${shard%/*}"
expect 4 'no intact checkpoint' "${train[@]}" --out stopped --resume "${shard%/*}"
if [[ -n $mpirun ]]; then
  expect 2 'mpi without mpirun' "${train[@]}" --set run.backend=mpi --set parallel.dp=2 --out alone
  grep -q 'mpirun -n 2' err.txt || { fail "not said how to start ranks of MPI"; cat err.txt; }
fi
expect 2 'no mpirun' "$trireme" launch "${config[@]}" --set run.backend=mpi \
  --mpirun /nowhere/mpirun --out a
grep -q 'run.backend = "mpi"' err.txt || { fail "not said how to start"; cat err.txt; }
# A limit on the size of files gives the same exit code as a full disk, for every file.
"$trireme" train "${config[@]}" --set run.steps=1 --out whole >out.txt 2>err.txt || fail "a run"
limited() { bash -c 'ulimit -f 1; exec "$@"' limited "$@"; }
expect 4 'export without room' limited "$trireme" checkpoint export whole --format hf --out hf
expect 4 'report without room' limited "$trireme" report whole --out page.html
yes 'a line of a text' | head -n 20000 >text.txt
expect 4 'prepare without room' limited "$trireme" data prepare text.txt --tokenizer byte --out data
if mount -t tmpfs -o size=600k trireme "$small" 2>/dev/null; then
  expect 4 'undisturbed run without room' "$trireme" chaos "${config[@]}" --out "$small/chaos"
  grep -q '^error: .*No space left' err.txt || { fail 'no reason'; cat err.txt; }
  ! grep -qE '^error: *$' err.txt || { fail 'an error without words'; cat err.txt; }
  umount "$small"
fi

((failures == 0)) && echo "all good"
exit $((failures > 0))
