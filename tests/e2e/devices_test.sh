#!/usr/bin/env bash
# What NVIDIA's library reports about devices is in metrics.jsonl, in the metrics for Prometheus and
# in `trireme doctor`. Without the library there is nothing of it.
# Usage: devices_test.sh TRIREME SOURCE FAKE_FOLDER
set -uo pipefail
trireme=$1
configs=$2/configs
fake=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

train() {
  "$trireme" train "$configs/tiny-gpt2.toml" --set run.threads_per_rank=1 --set run.steps=100000 \
    --set run.prometheus_file="$folder/$1.prom" --out "$folder/$1" >/dev/null 2>&1 &
  local run=$!
  for ((i = 0; i < 500; i++)); do
    grep -q '"event":"host"' "$folder/$1/metrics.jsonl" 2>/dev/null && break
    sleep 0.02
  done
  kill -TERM $run
  wait $run
}

LD_LIBRARY_PATH=$fake train with
metrics=$folder/with/metrics.jsonl
first='{"device":0,"name":"Fake 100","temperature_c":71,"power_w":312.5,"ecc_corrected":12,'
first+='"ecc_uncorrected":3,"throttle":["hw_thermal"]}'
second='{"device":1,"name":"","temperature_c":40,"throttle":[]}'
grep -qF "\"devices\":[$first,$second]" "$metrics" ||
  fail "the host line: $(grep -m1 '"event":"host"' "$metrics")"
grep -q '^trireme_device_temperature_celsius{run="with",device="1"} 40$' "$folder/with.prom" ||
  fail "Prometheus: $(grep device "$folder/with.prom")"
grep -q '^trireme_device_throttled{run="with",device="0",reason="hw_thermal"} 1$' \
  "$folder/with.prom" || fail "the reason of throttling: $(grep throttled "$folder/with.prom")"
LD_LIBRARY_PATH=$fake "$trireme" doctor >"$folder/doctor"
found='Fake 100: 71 C, 312.5 W, 3 errors that were not corrected, slowed down: hw_thermal'
grep 'GPU 0 ' "$folder/doctor" | grep -qF "$found" || fail "doctor: $(grep GPU "$folder/doctor")"

if ! grep -q libnvidia-ml <(ldconfig -p); then
  train without
  grep -q '"devices"' "$folder/without/metrics.jsonl" && fail "there are devices without a library"
  grep -q trireme_device "$folder/without.prom" && fail "Prometheus has devices without a library"
  "$trireme" doctor | grep -q 'GPU 0' && fail "doctor has devices without a library"
fi
exit $failed
