#!/bin/sh
# Kernels are compiled once per instruction set. If two of these builds share a weak symbol (an
# inline function or a template instance outside the namespace of the instruction set), the linker
# keeps only one of them, perhaps the AVX-512 one for a processor without AVX-512. This script finds
# such symbols.
# Usage: tools/check_isa_symbols.sh BUILD_DIR      exit code 0: none; 1: some, printed; 2: wrong
# usage
set -eu

if [ $# -ne 1 ] || [ ! -d "$1/CMakeFiles" ]; then
  echo "usage: $0 BUILD_DIR (a configured release build)" >&2
  exit 2
fi

found=0
for isa in avx2 avx512 avx512_bf16 amx_bf16; do
  objects=$(find "$1/CMakeFiles/trireme_kernels_$isa.dir" -name '*.o' 2>/dev/null || true)
  if [ -z "$objects" ]; then
    echo "$0: no objects of trireme_kernels_$isa in $1; build trireme_kernels first" >&2
    exit 2
  fi
  # W, V, u: weak functions, weak data, unique data. T, D, B, R: strong global symbols. The
  # compiler's marks of exception tables (DW.ref.*) are the same in every object.
  for object in $objects; do
    offending=$(nm -C --defined-only "$object" |
      awk -v isa="trireme::$isa::" '
        $2 ~ /^[WVuTDBR]$/ {
          name = $0
          sub(/^[0-9a-f]* . /, "", name)
          if (index(name, isa) == 0 && name !~ /^DW\.ref\./) print "  " $2 " " name
        }')
    if [ -n "$offending" ]; then
      echo "${object#"$1"/CMakeFiles/}:"
      echo "$offending"
      found=1
    fi
  done
done
if [ $found -ne 0 ]; then
  echo "these symbols are not in their instruction set's namespace: inline them or move them there"
fi
exit $found
