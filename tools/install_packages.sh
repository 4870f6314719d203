#!/usr/bin/env bash
# Installs Debian packages that are missing: tools/install_packages.sh GROUP...
# Groups: build (compiler and libraries), test (what make test adds), demo (text for make demo),
# measure (what the scripts that are called by hand compare with).
set -euo pipefail

build=(g++ cmake ninja-build pkg-config git ca-certificates libfmt-dev libtomlplusplus-dev
       nlohmann-json3-dev libxxhash-dev zlib1g-dev libzstd-dev libssl-dev libisal-dev
       libpng-dev libjpeg-dev libopenmpi-dev openmpi-bin)
test=(libgtest-dev libpcre2-dev coinor-libcbc-dev unicode-data clang-14 libclang-rt-14-dev
      clang-format-14 clang-tidy-14 dpkg-dev fiu-utils
      etcd-server  # a store for memberships: 24 MB; Debian starts it at 127.0.0.1:2379
      chromium chromium-driver)  # the report in a browser: 130 MB
demo=(bible-kjv bible-kjv-text r-cran-janeaustenr)
large=(dict-gcide)  # Webster 1913, for make demo LARGE=1
measure=(iproute2 iperf3)  # tests/ranks/bandwidth.sh

# Takes scikit-learn's digits (57 KB) out of Debian's package (2 MB), for configs/digits.toml and
# tests/e2e/digits_test.sh, which is skipped without them.
fetch_digits() {
  local build inside=./usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz
  build=$(dirname "$(realpath "$0")")/../build
  [[ -f $build/digits.csv.gz ]] && return
  local folder
  folder=$(mktemp -d)
  if (cd "$folder" && apt-get download -q python3-sklearn &&
      dpkg-deb --fsys-tarfile python3-sklearn_*.deb | tar -xO "$inside" >digits.csv.gz) >&2; then
    mkdir -p "$build" && mv "$folder/digits.csv.gz" "$build/"
  else
    echo "install_packages.sh: no package with the digits, so their test is skipped" >&2
  fi
  rm -rf "$folder"
}

wanted=()
has_tests=
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${build[@]}" "${test[@]}"); has_tests=1 ;;
    demo) wanted+=("${build[@]}" "${demo[@]}") ;;
    large) wanted+=("${large[@]}") ;;
    measure) wanted+=("${build[@]}" "${measure[@]}") ;;
    *)
      echo "install_packages.sh: $group is no group; use build, test, demo, large or measure" >&2
      exit 2 ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $state == ii* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  [[ -z $has_tests ]] || fetch_digits
  exit 0
fi

echo "Installing from Debian's packages: ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "This needs root. Run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
[[ -z $has_tests ]] || fetch_digits
