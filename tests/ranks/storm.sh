#!/usr/bin/env bash
# A storm of failures changes no number (`trireme chaos`): ranks are killed and stopped, the agent
# is killed, and the newest checkpoint is damaged, at random moments. Losses, gradient norms,
# weights and the state of the optimizer are bit for bit those of a run that nobody has disturbed.
# Usage: storm.sh TRIREME CONFIGS [FAULTS] [SEED]
set -uo pipefail
trireme=$1
configs=$2
faults=${3:-5}
seed=${4:-1}
. "$(dirname "$0")/job_folder.sh"

common=("$configs/tiny-gpt2.toml" --ranks 4 --set run.threads_per_rank=1
        --set run.reproducible=layout --set model.layers=1 --set batch.global_sequences=4
        --set checkpoint.every=5 --set run.comm_timeout_s=2)
# Many faults come so fast that the undisturbed run does not take longer than they do.
if ((faults > 100)); then mtbf=0.05 steps_per_fault=40; else mtbf=0.15 steps_per_fault=100; fi
# storm NAME FAULTS KINDS STEPS
storm() {
  "$trireme" chaos "${common[@]}" --steps "$4" --seed "$seed" --mtbf $mtbf --faults "$3" \
    --most-faults "$2" --out "$folder/$1" --json >"$folder/json" 2>"$folder/log" ||
    fail "$1: exit code $?"
  grep -q '"good": true' "$folder/json" || fail "$1: the storm was not survived"
  for key in survived redone_steps effective predicted; do
    grep -m1 -E "^  \"$key\": [0-9]" "$folder/json" || fail "$1: no $key"
  done
  for kind in ${3//,/ }; do
    grep -q "\"kind\": \"$kind\"" "$folder/json" || fail "$1: no $kind among $2 faults"
  done
  ((failed == 0)) || cat "$folder/json" "$folder/log"
}
storm ranks "$faults" kill,stop,flip,agent $((100 + steps_per_fault * faults))
# Three of four faults kill a rank, or all of them with their agent.
kills=$(grep -cE '"kind": "(kill|flip|agent)"' "$folder/json")
echo "$kills kills"
((kills >= faults * 2 / 3)) || fail "$kills kills among $faults faults"
# A host is cut off, and the disk is full. Only root can do so.
if ((EUID == 0)) && unshare -n true 2>/dev/null && command -v ip >/dev/null; then
  storm machine 2 partition,disk 300
fi

# What cannot be injected is refused with what is missing.
refused() {
  "$trireme" chaos "${common[@]}" "${@:2}" --out "$folder/refused" 2>"$folder/log"
  [[ $? == 2 ]] && grep -q -- "$1" "$folder/log" || fail "$1: $(<"$folder/log")"
}
refused 'there are kill, stop, partition, disk, flip' --faults kill,lightning
refused 'set checkpoint.every' --faults flip --set checkpoint.every=0
refused 'expected 0.05' --mtbf 0
exit $failed
