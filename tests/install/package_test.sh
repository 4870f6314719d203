#!/usr/bin/env bash
# Makes the Debian packages and checks their content: package_test.sh BUILD_DIR SOURCE_DIR
set -u
build=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
for program in dpkg-deb dpkg-shlibdeps; do
  command -v $program >/dev/null || { echo "$program is not here: nothing is tested"; exit 0; }
done

cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/debs" >log 2>&1 || { cat log; exit 1; }
version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
architecture=$(dpkg --print-architecture)
program=debs/trireme_${version}_$architecture.deb
library=debs/libtrireme-dev_${version}_$architecture.deb

# lists PACKAGE FILE...: checks that the package contains the files.
lists() {
  dpkg-deb --contents "$1" >contents || { fail "$1 is no package"; return; }
  for file in "${@:2}"; do
    grep -q " \./$file\$" contents || fail "$1 lacks $file"
  done
  # No file belongs to the user who built it, and everybody may read all files.
  grep -vE '^[-d]rw[-x]r-[-x]r-[-x] root/root ' contents && fail "$1: owner or mode"
}
lists "$program" usr/bin/trireme usr/share/man/man1/trireme.1.gz \
  usr/share/bash-completion/completions/trireme usr/share/zsh/vendor-completions/_trireme \
  usr/share/fish/vendor_completions.d/trireme.fish usr/share/trireme/models/llama3-8b.toml \
  usr/share/doc/trireme/copyright usr/share/doc/trireme/changelog.gz
grep -qE 'include/|\.a$' contents && fail "the program's package holds the library"
lists "$library" usr/lib/libtrireme.a usr/include/trireme/trireme.h usr/include/trireme/version.h \
  usr/lib/cmake/trireme/trireme-config.cmake usr/share/doc/libtrireme-dev/copyright
grep -q 'bin/' contents && fail "the library's package holds the program"

depends=$(dpkg-deb --field "$program" Depends)
for needed in libc6 libstdc++6 libfmt libxxhash0 libzstd1 zlib1g libssl3; do
  [[ $depends == *$needed* ]] || fail "trireme does not depend on $needed: $depends"
done
[[ $(dpkg-deb --field "$library" Depends) == *libfmt-dev* ]] ||
  fail "libtrireme-dev lacks libfmt-dev"

dpkg-deb --extract "$program" unpacked
unpacked/usr/bin/trireme plan unpacked/usr/share/trireme/configs/tiny-gpt2.toml >plan.txt ||
  fail "the unpacked program runs"
# The copyright file names the owner and the licence.
maintainer=$(dpkg-deb --field "$program" Maintainer)
[[ -n $maintainer && $maintainer != *example* ]] || fail "the maintainer is $maintainer"
for package in "$program" "$library"; do
  dpkg-deb --fsys-tarfile "$package" | tar -xO --wildcards './usr/share/doc/*/copyright' >copyright
  grep -q '^License: Apache-2.0$' copyright || fail "$package does not name its licence"
  grep -q '^Copyright: .*Trireme developers$' copyright || fail "$package does not say whose it is"
done
cmp -s unpacked/usr/share/doc/trireme/LICENSE "$root/LICENSE" ||
  fail "the licence is not in the package"
dpkg-parsechangelog -l unpacked/usr/share/doc/trireme/changelog.gz 2>&1 |
  grep -qF "Maintainer: $maintainer" ||
  fail "the changelog is not signed by the maintainer"
grep -rlF "$build" unpacked >found && fail "the build's folder stands in $(cat found)"
if command -v lintian >/dev/null; then
  lintian --fail-on error "$program" "$library" || fail "lintian"
fi

((failures == 0)) && echo "all good"
exit $((failures > 0))
