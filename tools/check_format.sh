#!/usr/bin/env bash
# Every C++ file is as clang-format makes it, no line of code has more than 100 columns, the writer
# and the parser of JSON are compiled once, and no two headers declare types of one name:
# tools/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14) ||
  { echo "clang-format-14 is missing: tools/install_packages.sh test"; exit 1; }
mode=(--dry-run --Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
folders=(src tests bench fuzz include examples)

find "${folders[@]}" -name '*.h' -o -name '*.cc' | LC_ALL=C sort |
  xargs -P "${JOBS:-$(nproc)}" -n 40 "$format" "${mode[@]}"
# clang-format leaves long words as they are. The table of Unicode is generated.
long=$(find "${folders[@]}" cmake tools CMakeLists.txt \
         \( -name '*.h' -o -name '*.cc' -o -name '*.inc' -o -name '*.cmake' -o -name '*.sh' \
            -o -name CMakeLists.txt \) ! -name unicode_classes.inc -print0 |
       LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{101,}$' || true)
[[ -z $long ]] || { echo "lines of more than 100 columns:"; echo "$long"; exit 1; }
twice=$(grep -rnE --include='*.h' --include='*.cc' '(json|Json)::parse\(|\.dump\(' src |
        grep -vE '^src/base/(json_text|bounded_json)\.cc|strict_json::parse' || true)
[[ -z $twice ]] ||
  { echo "JSON is written and parsed by base/json_text.h:"; echo "$twice"; exit 1; }
# Two types of one name would share what the compiler makes of them, such as the code of a list.
# Kernels have a namespace for each instruction set.
types=$(grep -rhoE --include='*.h' '^(struct|class) [A-Za-z0-9]+ (final )?[:{]' src \
          --exclude-dir=kernels | awk '{print $2}' | sort | uniq -d)
[[ -z $types ]] || { echo "types that two headers declare:" $types; exit 1; }
