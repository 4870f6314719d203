#!/usr/bin/env bash
# Tests a run that is stopped, killed, damaged or out of disk space, and how it resumes:
# resume_test.sh TRIREME SOURCE_DIR
set -u
trireme=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# All runs train the same model, so one uninterrupted run is the oracle of all.
common=("$root/configs/tiny-gpt2.toml" --set run.steps=16 --set checkpoint.every=4
        --set checkpoint.keep=10)
train() {  # OUT OPTIONS...
  "$trireme" train "${common[@]}" --out "$@" 2>"$1.err"
}
start() {  # OUT OPTIONS...: in the background, as $pid
  "$trireme" train "${common[@]}" --out "$@" 2>"$1.err" &
  pid=$!
}

# Prints step, loss and gradient norm of every training line.
numbers() {
  local step='"event":"train","step":([0-9]*),' loss='"loss":([^,]*),' norm='"grad_norm":([^,]*),'
  sed -nE "s/.*$step.*$loss.*$norm.*/\1 \2 \3/p" "$1/metrics.jsonl"
}

# Checks that the losses, the gradient norms and the last weights and moments equal those of the
# uninterrupted run.
same_as_whole() {
  diff <(numbers whole) <(numbers "$1") >diff.txt ||
    { fail "$1: losses differ"; head -n 5 diff.txt; }
  for shard in whole/checkpoints/step-000016/*.safetensors; do
    cmp "$shard" "$1/checkpoints/step-000016/${shard##*/}" || fail "$1: weights differ"
  done
}

# Waits until the run in the background has written `count` training lines, or has ended.
wait_for_steps() {  # OUT COUNT
  while kill -0 "$pid" 2>/dev/null; do
    [[ -e $1/metrics.jsonl ]] && (($(numbers "$1" | wc -l) >= $2)) && return
    sleep 0.01
  done
}

train whole || { fail "the whole run"; cat whole.err; }
[[ $(numbers whole | wc -l) == 16 ]] || fail "16 steps"

# After a signal in the middle of a step, the step is finished and saved, and the exit code is 130.
for signal in TERM INT USR1; do
  start stopped-$signal
  wait_for_steps stopped-$signal 5
  kill -$signal $pid
  wait $pid
  code=$?
  done_steps=$(numbers stopped-$signal | wc -l)
  if ((code == 0)); then
    echo "the run ended before SIG$signal came"
  else
    [[ $code == 130 ]] ||
      { fail "exit $code instead of 130 after SIG$signal"; cat stopped-$signal.err; }
    ((done_steps >= 5 && done_steps < 16)) || fail "stopped after $done_steps steps"
    printf -v folder 'stopped-%s/checkpoints/step-%06d' "$signal" "$done_steps"
    [[ -d $folder ]] || fail "no checkpoint of the last step: $folder"
  fi
  train stopped-$signal --resume auto ||
    { fail "resume after SIG$signal"; cat stopped-$signal.err; }
  same_as_whole stopped-$signal
done

# Stops the run every few steps, between checkpoints and at them.
for stop_after in 1 4 5 11 15; do
  resume=()
  [[ -d pieces ]] && resume=(--resume auto)
  train pieces "${resume[@]}" --set run.stop_after=$stop_after
  [[ $? == 130 ]] || { fail "run.stop_after=$stop_after"; cat pieces.err; }
done
train pieces --resume auto || fail "resume in pieces"
same_as_whole pieces

# Killed without warning: the newest checkpoint is older than the last line of metrics.jsonl.
# Nothing is left behind but what the run is made of.
offload=(--set memory.offload=optimizer --set memory.offload_buffer_bytes=65536)
start killed "${offload[@]}"
wait_for_steps killed 6
kill -KILL $pid
wait $pid 2>/dev/null
compgen -G 'killed/offload*' >/dev/null && fail "the file of memory.offload outlives a killed run"
touch killed/plan.json.tmp-1
: >killed/events.out.tfevents.0000000001.host.1.1
train killed --resume auto "${offload[@]}" || fail "resume after SIGKILL"
same_as_whole killed
[[ $(find killed -name '*.tmp-*') == "" ]] || fail "left: $(find killed -name '*.tmp-*')"
[[ $(ls killed/events.out.tfevents.* | wc -l) == 1 ]] || fail "an event file per life"

# If only the checkpoints of a finished run are left, the report is missing, but the run does not
# fail.
cp -r whole bare
find bare -mindepth 1 -maxdepth 1 ! -name checkpoints -exec rm -r {} +
train bare --resume auto || { fail "resume beside checkpoints alone"; cat bare.err; }
grep -q 'warning: there is no report' bare.err ||
  { fail "the missing report is not said"; cat bare.err; }

# The folder of a run is moved away: that is said, and the run makes it again and trains on with the
# same numbers. What was moved can be resumed, too.
start moved
wait_for_steps moved 5
mv moved elsewhere
wait $pid
code=$?
[[ $code == 0 ]] || { fail "exit $code of a run whose folder was moved"; cat moved.err; }
if [[ -e moved ]]; then
  grep -q 'moved was moved or removed' moved.err || { fail "the loss is not said"; cat moved.err; }
  same_as_whole moved
else
  echo "the run ended before its folder was moved"
fi
train elsewhere --resume auto || { fail "resume of a moved run"; cat elsewhere.err; }
same_as_whole elsewhere

# The second signal ends the process at once, without another checkpoint.
slow=(--set run.steps=4 --set batch.global_sequences=128 --set checkpoint.every=1)
start twice "${slow[@]}"
wait_for_steps twice 1
kill -TERM $pid
kill -INT $pid  # another signal, or the two would be one where the process is slow
wait $pid
code=$?
[[ $code == 5 ]] || fail "exit $code instead of 5 after two signals"
grep -q 'finishes its step and saves' twice.err || fail "the first signal is not answered"
grep -q 'nothing was saved since' twice.err || fail "the second signal is not answered"
grep -q 'stopped and saved' twice.err && fail "two signals must not wait for the step"
[[ $(ls twice/checkpoints 2>/dev/null | wc -l) -le 1 ]] || fail "a checkpoint after two signals"

# A damaged newest checkpoint is skipped and reported; the run resumes from the one before it.
newest_damaged() {  # NAME: the run damaged-NAME has checkpoints of steps 4 and 8
  train "damaged-$1" --set run.stop_after=8
  [[ $? == 130 ]] || fail "run.stop_after=8"
  newest=damaged-$1/checkpoints/step-000008
  shard=$(ls "$newest"/*.safetensors | head -n 1)
}
newest_damaged truncated
truncate -s -100 "$shard"
train damaged-truncated --resume auto ||
  { fail "resume beside a truncated shard"; cat damaged-truncated.err; }
grep -q 'damaged checkpoint.*step-000008' damaged-truncated.err ||
  fail "the damaged one is not said"
same_as_whole damaged-truncated
newest_damaged index
printf 'x' | dd of="$newest/index.json" bs=1 seek=50 conv=notrunc status=none
train damaged-index --resume auto ||
  { fail "resume beside a damaged index"; cat damaged-index.err; }
grep -q 'damaged checkpoint.*step-000008' damaged-index.err || fail "the damaged one is not said"
same_as_whole damaged-index
newest_damaged gone
rm "$shard"
train damaged-gone --resume auto || { fail "resume beside a missing shard"; cat damaged-gone.err; }
same_as_whole damaged-gone

# A damaged byte of a tensor is noticed when it is read; the run resumes from the checkpoint before
# it.
newest_damaged tensor
change_a_byte() {
  printf 'xyz' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") / 2)) conv=notrunc status=none
}
change_a_byte "$shard"
train damaged-tensor --resume auto ||
  { fail "resume beside a changed tensor"; cat damaged-tensor.err; }
grep -q 'damaged checkpoint.*step-000008.*checksum' damaged-tensor.err ||
  fail "the changed tensor is not named"
same_as_whole damaged-tensor

# If all checkpoints are damaged, no fresh run overwrites them: exit code 4.
newest_damaged all
for shard in damaged-all/checkpoints/*/*.safetensors; do change_a_byte "$shard"; done
train damaged-all --resume auto
[[ $? == 4 ]] || { fail "damaged checkpoints alone must end with 4"; cat damaged-all.err; }
grep -q 'no checkpoint.*is intact' damaged-all.err ||
  { fail "what to do is not said"; cat damaged-all.err; }
[[ $(numbers damaged-all | wc -l) == 8 ]] || fail "the metrics of the damaged run"

# Without space for a checkpoint the exit code is 4, and the previous checkpoint can be loaded.
train full --set run.stop_after=6
shard_kib=$(($(stat -c %s full/checkpoints/step-000006/*.safetensors | sort -n | tail -n 1) / 1024))
(ulimit -f $((shard_kib / 2)) && train full --resume auto)
code=$?
[[ $code == 4 ]] || { fail "exit $code instead of 4 without room for a checkpoint"; cat full.err; }
grep -q 'step-000008.*File too large' full.err ||
  { fail "the checkpoint is not named"; cat full.err; }
[[ ! -e full/checkpoints/step-000008 ]] || fail "half a checkpoint"
ls full/checkpoints | grep -q tmp && fail "something is left behind: $(ls full/checkpoints)"
"$trireme" checkpoint verify full >/dev/null || fail "the checkpoint before a full disk"
train full --resume auto || fail "resume when there is room again"
same_as_whole full

# Links in the folder of a run are not followed: their targets are neither emptied nor written.
mkdir linked
echo kept >target
ln -s ../target linked/metrics.jsonl
train linked --resume auto || { fail "a link at metrics.jsonl"; cat linked.err; }
same_as_whole linked
rm -rf linked
mkdir linked
ln -s ../target linked/.lock
train linked --resume auto
[[ $? == 4 ]] || { fail "a link at .lock"; cat linked.err; }
grep -q 'linked/.lock is not a lock.*move it away' linked.err || fail "what to do is not said"
[[ $(<target) == kept ]] || fail "the target of a link was written: $(<target)"

((failures == 0)) && echo "all good"
exit $((failures > 0))
