#!/usr/bin/env bash
# Hosts with a history of failures in the folder of the run: one that has failed too often is left
# out, and one whose score becomes too high in this job is drained, because another host has a free
# slot. The hosts are network namespaces.
# Usage: hosts_history.sh TRIREME CONFIGS. Exit code 77: skipped.
set -uo pipefail
trireme=$1
configs=$2
. "$(dirname "$0")/namespaces.sh"
make_namespaces 3 "" || exit 77
. "$(dirname "$0")/jobs_on_hosts.sh"

common=(--set run.threads_per_rank=1 --set run.reproducible=layout --set run.steps=100000
        --set model.layers=1 --set batch.global_sequences=4 --set checkpoint.every=5
        --set checkpoint.keep=2 --set run.comm_timeout_s=5)
launch() { "$trireme" launch "$configs/tiny-gpt2.toml" "${common[@]}" --ranks 2 "$@"; }
on() { launch --out "$folder/$1" --hosts "$2" --ssh "$shell" --listen "$gateway" --resume auto \
  "${@:3}"; }
# failed_before RUN HOST TIMES: the run was begun, and its history says that the host has just
# failed so often.
failed_before() {
  local i
  launch --out "$folder/$1" --set run.stop_after=5 2>"$folder/log"
  for ((i = 0; i < $3; i++)); do
    echo "{\"host\":\"$2\",\"kind\":\"crashed\",\"time\":$(date +%s)}"
  done >"$folder/$1/host_history.jsonl"
}
bad=${hosts[1]}
three="${hosts[0]}:1,$bad:1,${hosts[2]}:1"

# Three failures are too many, and the others have room: the host is left out.
failed_before out "$bad" 3
on out "$three" --set run.stop_after=20 2>"$folder/log"
[[ $? == 130 ]] || fail "exit code of the run without the host"
grep -qE "host $bad has failed often lately \(score (3.0|2.9) of 2.9, .*: it is left out" \
  "$folder/log" || fail "it is not said that the host is left out"
grep -qF "\"$bad\"" "$folder/out/metrics.jsonl" && fail "the host that is left out has had ranks"

# The same, but the others have no room: the host is used, and that is said.
failed_before used "$bad" 3
on used "${hosts[0]}:1,$bad:1" --set run.stop_after=20 2>"$folder/log"
[[ $? == 130 ]] || fail "exit code of the run that needs the host"
grep -q "host $bad has failed often lately .* still used, because the other hosts have no room" \
  "$folder/log" || fail "it is not said that the host is still used"

# Two failures are not too many. The third one comes in this job: the ranks save and leave the host.
failed_before drained "$bad" 2
on drained "$three" --spares 1 --lease 2 2>"$folder/log" &
job=$!
reaches 20 drained
ranks_of_bad=$(ranks_on "$bad")
[[ -n $ranks_of_bad ]] || fail "a host with two failures gets no ranks"
kill -SEGV $ranks_of_bad
until_has "host $bad is drained: it has failed often lately \(score (3.0|2.9) of 2.9\)" \
  cat "$folder/log"
until_has "host $bad +drained" "$trireme" status "$folder/drained"
until_has "rank [01] .*${hosts[2]}" "$trireme" status "$folder/drained"
reaches 60 drained
[[ -z $(ranks_on "$bad") ]] || fail "ranks of the drained host are alive"
"$trireme" stop "$folder/drained" >/dev/null
wait $job
[[ $? == 130 ]] || fail "exit code of the run whose host was drained"
# A rank that gets SIGSEGV under the address sanitizer reports it and ends with an exit code.
history=$(<"$folder/drained/host_history.jsonl")
(($(grep -cE "\"$bad\",\"kind\":\"(crashed|failed)\"" <<<"$history") == 3)) ||
  fail "the history: $history"

# One bit of a parameter of one rank flips, and nothing compares the state. A replay on other ranks
# finds it, and the others outvote this rank. Its host gets no rank of the next epoch, and the run
# goes back to the checkpoint before the last replay that has found nothing, not to the newest one.
# With this learning rate the parameters keep the values of the checkpoint.
# flip PID CHECKPOINT: flips a bit wherever the process has the first values of a tensor.
flip() {
  local shard head from at begin end range rights rest pattern maps
  maps=$(<"/proc/$1/maps")
  shard=$(grep -laF '"embedding.positions"' "$2"/*.safetensors | head -1)
  head=$(od -An -t u8 -N 8 "$shard" | tr -d ' ')
  from=$(head -c $((head + 8)) "$shard" | tail -c "$head" |
    grep -oaE '"embedding.positions":[^}]*' | grep -oE 'offsets":\[[0-9]+' | grep -oE '[0-9]+$')
  pattern=$(od -An -v -t x1 -j $((8 + head + from)) -N 32 "$shard" | tr -d '\n' |
    sed 's/ /\\x/g')
  while read -r range rights rest; do
    [[ $rights == rw* && $rest != *"[v"* ]] || continue
    begin=$((16#${range%-*})) end=$((16#${range#*-}))
    for at in $(dd if="/proc/$1/mem" iflag=skip_bytes,count_bytes bs=1M skip=$begin \
      count=$((end - begin)) 2>/dev/null | LC_ALL=C grep -obUaP "$pattern" | cut -d: -f1); do
      at=$((begin + at + 2))  # high bits of the mantissa
      rest=$(dd if="/proc/$1/mem" iflag=skip_bytes bs=1 skip=$at count=1 2>/dev/null | od -An -t u1)
      printf "\\x$(printf %x $((rest ^ 64)))" | dd of="/proc/$1/mem" oflag=seek_bytes bs=1 \
        seek=$at conv=notrunc 2>/dev/null
      echo flipped
    done
  done <<<"$maps"
}
slow=(--ranks 3 --set batch.global_sequences=6 --set optim.lr=1e-30 --set checkpoint.every=100
      --set checkpoint.keep=9 --set run.replay_elsewhere_every=120)
on wrong "${hosts[0]}:2,$bad:1,${hosts[2]}:1" --spares 1 --lease 2 "${slow[@]}" 2>"$folder/log" &
job=$!
reaches 122 wrong
flip "$(ranks_on "$bad")" "$folder/wrong/checkpoints/step-000100" | grep -q flipped ||
  fail "no parameter was found in memory"
until_has "host $bad is drained: it has computed wrong numbers; other hosts take its ranks" \
  cat "$folder/log"
until_has '"restart"' cat "$folder/wrong/metrics.jsonl"
said=$(grep '"event":"failure"' "$folder/wrong/metrics.jsonl")
clean=$(grep -oE 'right in step [0-9]+' <<<"$said" | grep -oE '[0-9]+')
alarm=$(grep -oE '"failure","step":[0-9]+' <<<"$said" | grep -oE '[0-9]+')
((alarm == clean + 120)) || fail "the alarm: $said"
[[ $(restart wrong) == *"\"step\":$((clean / 100 * 100)),"* ]] ||
  fail "it has not resumed from the last clean checkpoint: $(restart wrong)"
[[ -z $(ranks_on "$bad") ]] || fail "ranks of the host that was wrong are alive"
aside=wrong-step-000$(((alarm - 1) / 100))00
grep -q "$aside may hold wrong results" "$folder/log" || fail "the user is not told"
[[ -d $folder/wrong/checkpoints/$aside ]] || fail "the wrong checkpoint is not set aside"
reaches $((alarm + 50)) wrong
"$trireme" stop "$folder/wrong" >/dev/null
wait $job
[[ $? == 130 ]] || fail "exit code of the run with a wrong host"
grep -qE "^\{\"host\":\"$bad\",\"kind\":\"corrupted\",.*\"weight\":3.000}$" \
  "$folder/wrong/host_history.jsonl" ||
  fail "the history: $(cat "$folder/wrong/host_history.jsonl")"
grep -qE '"corruption":\{"check":"replay_elsewhere",'".*\"host\":\"$bad\".*\"certain\":true" \
  "$folder/wrong/metrics.jsonl" || fail "the line of the failure"
grep -A10 '"corruptions"' "$folder/wrong/summary.json" | grep -q "\"host\": \"$bad\"" ||
  fail "the summary does not name the host"
grep -qF "on host $bad computed or held wrong numbers" \
  <("$trireme" failures "$folder/wrong") || fail "trireme failures does not name the host"
launch --out "$folder/right" "${slow[@]}" --set run.stop_after=$((alarm + 50)) 2>>"$folder/log"
cmp -s <(numbers right) <(numbers wrong | head -$((3 * alarm + 150))) ||
  fail "the run with a wrong host has other numbers in the end"

# A damaged line is refused with its number, and nothing in the folder changes.
echo '{"host":"x","kind":"crashed","time":"soon"}' >>"$folder/wrong/host_history.jsonl"
before=$(ls -lR --time-style=full-iso "$folder/wrong" | md5sum)
on wrong "$three" "${slow[@]}" 2>"$folder/refused"
[[ $? == 4 ]] || fail "exit code of a run with a damaged history"
grep -q "host_history.jsonl:2: .*correct or remove the line" "$folder/refused" ||
  fail "the line of the history is not named: $(<"$folder/refused")"
[[ $before == $(ls -lR --time-style=full-iso "$folder/wrong" | md5sum) ]] ||
  fail "a run that was refused has changed its folder"

launch --out "$folder/calm" --set run.stop_after=60 2>>"$folder/log"
cmp -s <(numbers calm | head -180) <(numbers drained | head -180) ||
  fail "the run whose host was drained has other numbers"
exit $failed
