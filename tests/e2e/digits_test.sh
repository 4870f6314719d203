#!/usr/bin/env bash
# A net learns scikit-learn's digits in a minute: digits_test.sh TRIREME SOURCE_DIR
# Skipped (exit code 77) without the data, which `tools/install_packages.sh test` takes out of a
# Debian package.
set -u
trireme=$1
root=$2
least=0.97  # of the held-out images
most_s=60

places=("${TRIREME_DIGITS:-}" "$root/build/digits.csv.gz"
        /usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz)
digits=
for place in "${places[@]}"; do
  [[ -n $place && -f $place ]] && { digits=$place; break; }
done
if [[ -z $digits ]]; then
  echo "SKIPPED: no digits.csv.gz in build/; tools/install_packages.sh test fetches it"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$digits" digits.csv.gz

"$trireme" data images digits.csv.gz >classes 2>err || { echo "FAILED: a damaged set"; exit 1; }
grep -q '1797' classes || { echo "FAILED: not 1,797 digits"; cat classes; exit 1; }
begin=$(date +%s%N)
"$trireme" train "$root/configs/digits.toml" --out run 2>err || { tail -n 5 err; exit 1; }
seconds=$(awk "BEGIN {print ($(date +%s%N) - $begin) / 1e9}")
accuracy=$(grep -oE '"val_accuracy": *[0-9.]+' run/summary.json | grep -oE '[0-9.]+$')
echo "$accuracy of the held-out digits in $seconds s"
awk "BEGIN {exit !($accuracy >= $least)}" || { echo "FAILED: below $least"; exit 1; }
awk "BEGIN {exit !($seconds <= $most_s)}" || { echo "FAILED: longer than $most_s s"; exit 1; }
