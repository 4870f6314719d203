#!/usr/bin/env bash
# Checks that a program has the hardening of cmake/hardening.cmake: hardening_test.sh PROGRAM
set -u
program=$1
failures=0

fail() {
  echo "FAILED: $program $*"
  failures=$((failures + 1))
}
export LC_ALL=C
headers=$(readelf -hlW "$program") || exit 1
dynamic=$(readelf -dW "$program")
imported=$(readelf --dyn-syms -W "$program" | awk '$7 == "UND" {print $8}')

grep -q 'Type: *DYN' <<<"$headers" || fail "is not position-independent"
grep -q 'INTERP' <<<"$headers" || fail "is no program"
grep -q 'GNU_RELRO' <<<"$headers" || fail "has no read-only relocations"
grep -qE 'FLAGS.*\bNOW\b|BIND_NOW' <<<"$dynamic" ||
  fail "binds symbols late: its GOT stays writable"
grep -qE 'GNU_STACK .* RW +0x' <<<"$headers" || fail "has an executable stack"
grep -qE 'LOAD .* RWE ' <<<"$headers" && fail "has a segment that is writable and executable"
grep -q 'TEXTREL' <<<"$dynamic" && fail "relocates its code"
sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]/\2/p' <<<"$dynamic" | tr ':' '\n' | grep -v '^$' |
  grep -qv '^/usr/lib/' &&
  fail "looks for libraries outside the system's folders"
grep -q '^__stack_chk_fail' <<<"$imported" || fail "has no stack protector"
grep -qE '^__(memcpy|memset|read|snprintf|strncpy)_chk' <<<"$imported" ||
  fail "has no checked calls of the C library"
grep -q '^_ZSt21__glibcxx_assert_fail' <<<"$imported" || fail "has no checked containers"

((failures == 0)) && echo "all good"
exit $((failures > 0))
