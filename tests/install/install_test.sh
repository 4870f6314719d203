#!/usr/bin/env bash
# Installs into an empty prefix, builds the example against it and runs both:
# install_test.sh BUILD_DIR SOURCE_DIR
set -u
build=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
prefix=$work/prefix
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

cmake --install "$build" --prefix "$prefix" >install.log || { cat install.log; exit 1; }
for file in bin/trireme lib/libtrireme.a include/trireme/trireme.h include/trireme/version.h \
            lib/cmake/trireme/trireme-config.cmake share/man/man1/trireme.1.gz \
            share/bash-completion/completions/trireme share/zsh/site-functions/_trireme \
            share/fish/vendor_completions.d/trireme.fish share/trireme/models/gpt2-124m.toml \
            share/trireme/clusters/dgx-h100.toml share/trireme/configs/tiny-gpt2.toml \
            share/doc/trireme/README.md; do
  [[ -s $prefix/$file ]] || fail "$file is not installed"
done

# The installed program finds its models.
"$prefix/bin/trireme" plan "$prefix/share/trireme/configs/tiny-gpt2.toml" \
  --set model.preset=gpt2-124m >plan.txt || fail "the installed program plans an installed model"
grep -q 124439808 plan.txt || fail "the installed preset is not read"

# Each public header compiles by itself and includes no internal header.
if grep -nE '#include ["<]' "$prefix"/include/trireme/*.h |
  grep -vE '<[a-z_]+>|"trireme/[a-z_]+\.h"'; then
  fail "inner headers leak"
fi
for header in "$prefix"/include/trireme/*.h; do
  echo "#include <trireme/${header##*/}>" >alone.cc
  "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" alone.cc ||
    fail "$header does not stand alone"
done

# Builds the example as a user would.
cp -r "$prefix"/share/doc/trireme/examples/library example
{ cmake -S example -B example/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS=-Wno-psabi &&
    cmake --build example/build; } >example.log 2>&1 ||
  { fail "the example is built"; tail -n 30 example.log; }
program=example/build/train_and_generate
"$program" run "$root/docs" >out 2>err || { fail "the example runs"; cat err; }
grep -q 'step 60: loss' out || { fail "the example trains"; cat out; }
[[ $(sed '1,/^step 60/d' out | wc -c) == 61 ]] || { fail "the example generates"; cat out; }
"$prefix/bin/trireme" checkpoint verify run/run >/dev/null || fail "the example's checkpoint"
# A failure is an exception with its kind; here the folder is no longer empty.
"$program" run "$root/docs" >out 2>err
[[ $? == 2 ]] || fail "exit code of a usage error"
grep -q 'is not empty' err || { fail "what is wrong is not said"; cat err; }

((failures == 0)) && echo "all good"
exit $((failures > 0))
