#!/usr/bin/env bash
# A rank is stopped (SIGSTOP) at a random moment of a job: the others end at their deadline with
# exit code 5, and the launcher ends. Usage: stopped.sh TRIREME MPIRUN CONFIGS [ATTEMPTS]
set -u
source "$(dirname "$0")/mpirun.sh"
configs=$3
attempts=${4:-3}
. "$(dirname "$0")/job_folder.sh"

# Every rank writes its process number.
trireme=$PROGRAM
cat >"$folder/rank" <<RANK
#!/usr/bin/env bash
echo \$\$ >"$folder/pid.\$OMPI_COMM_WORLD_RANK"
exec "$trireme" "\$@"
RANK
chmod +x "$folder/rank"

for ((i = 0; i < attempts; i++)); do
  rm -rf "$folder/run" "$folder"/pid.*
  # Some jobs are stopped while they start, some in steps and saves, some at their end.
  steps=$((i % 4 == 3 ? 30 : 100000))
  "${launch[@]}" -n 2 "$folder/rank" train "$configs/tiny-gpt2.toml" --set run.threads_per_rank=1 \
    --set checkpoint.every=2 --set run.steps=$steps --set run.comm_timeout_s=3 \
    --set checkpoint.timeout_s=4 --out "$folder/run" >"$folder/log" 2>&1 &
  launcher=$!
  for ((k = 0; k < 600; k++)); do
    [[ -s $folder/pid.0 && -s $folder/pid.1 ]] && break
    sleep 0.05
  done
  sleep "$(((i * 37) % 300 / 100)).$(printf '%02d' $(((i * 37) % 100)))"
  victim=$(<"$folder/pid.$((i % 5 == 4))")
  kill -STOP "$victim" 2>/dev/null
  begin=$SECONDS
  for ((k = 0; k < 400; k++)); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
  if kill -0 $launcher 2>/dev/null; then
    echo "FAILED: attempt $i still runs after $((SECONDS - begin)) s"
    tail -n 5 "$folder/log"
    failed=1
    kill -KILL $launcher $(cat "$folder"/pid.*) 2>/dev/null
    wait $launcher 2>/dev/null
    continue
  fi
  wait $launcher
  code=$?
  cause=$(grep -m1 'error:' "$folder/log" | cut -c1-150)
  echo "attempt $i: exit $code after $((SECONDS - begin)) s: $cause"
  # A job that ended before the signal has exit code 0.
  [[ $code == 5 || ($code == 0 && $steps == 30) ]] || { cat "$folder/log"; failed=1; }
done
exit $failed
