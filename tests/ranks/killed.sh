#!/usr/bin/env bash
# A rank that is killed in the middle of a run: the others leave with exit code 5 and name it,
# though the launcher asks them to stop with SIGTERM; what was saved goes on.
# killed.sh TRIREME MPIRUN CONFIGS
set -euo pipefail
source "$(dirname "$0")/mpirun.sh"
configs=$3
. "$(dirname "$0")/job_folder.sh"

common=("$configs/tiny-gpt2.toml" --set run.threads_per_rank=1 --set checkpoint.every=5
        --set run.reproducible=layout)
trireme=$PROGRAM
# Every rank writes its process and, at the end, its exit code; the launcher's signal is for it
# alone.
cat >"$folder/rank" <<RANK
#!/usr/bin/env bash
trap '' TERM
(trap - TERM; echo \$BASHPID >"$folder/pid.\$OMPI_COMM_WORLD_RANK"; exec "$trireme" "\$@")
echo \$? >"$folder/code.\$OMPI_COMM_WORLD_RANK"
RANK
chmod +x "$folder/rank"
PROGRAM=$folder/rank
ranks 2 train "${common[@]}" --set run.steps=100000 --out "$folder/run" 2>"$folder/log" &
launcher=$!
saved() { compgen -G "$folder/run/checkpoints/step-*/index.json" >/dev/null; }
for ((i = 0; i < 600; i++)); do saved && break; sleep 0.1; done
kill -KILL "$(<"$folder/pid.1")"
wait $launcher && fail "the job ended well"
for ((i = 0; i < 100; i++)); do [[ -e $folder/code.0 ]] && break; sleep 0.1; done

[[ $(cat "$folder/code.0" 2>/dev/null) == 5 ]] ||
  fail "exit code of rank 0: $(cat "$folder/code.0")"
grep -q 'rank 1 has died' "$folder/log" || fail "rank 1 is not named"
grep -q '"event":"failure".*rank 1' "$folder/run/metrics.jsonl" || fail "no cause in the metrics"

# Checkpoints do not depend on the layout: one rank resumes where two have stopped.
# A folder that was being written when the rank died still has a temporary name.
step=$(cd "$folder/run/checkpoints" && ls -d step-* | grep -v tmp | tail -n 1)
last=$((10#${step#step-} + 3))
"$trireme" train "${common[@]}" --set run.steps=$last --out "$folder/run" --resume auto \
  2>"$folder/resumed" || fail "not resumed: $(tail -n 1 "$folder/resumed")"

# SIGUSR1 sent to the launcher reaches the ranks, which save and exit.
"${launch[@]}" -n 2 "$trireme" train "${common[@]}" --set run.steps=100000 --out "$folder/asked" \
  2>"$folder/log" &
launcher=$!
for ((i = 0; i < 600; i++)); do
  grep -q '"step":5,' "$folder/asked/metrics.jsonl" 2>/dev/null && break
  sleep 0.1
done
kill -USR1 $launcher
for ((i = 0; i < 600; i++)); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
kill -KILL $launcher 2>/dev/null && fail "SIGUSR1 has not stopped the run"
wait $launcher && fail "a run that was stopped ended with 0"
grep -q 'stopped and saved' "$folder/log" || fail "the run has not saved"
((failed == 0)) || cat "$folder/log"
exit $failed
