#!/usr/bin/env bash
# A layer includes itself and lower layers, never a higher one. The order is the build's.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t layers < <(sed -n '/^set(layers /,/)/p' CMakeLists.txt | tr '() ' '\n\n\n' |
                      grep -vxE 'set|layers|')
layers+=(cli)
declare -A height
for i in "${!layers[@]}"; do height[${layers[i]}]=$i; done

wrong=0
while IFS=: read -r file line text; do
  layer=${file#src/}; layer=${layer%%/*}
  included=${text#*\"}; included=${included%%/*}
  if [[ -z ${height[$layer]+known} ]]; then
    echo "$file: src/$layer is no layer of CMakeLists.txt"; wrong=1
  elif [[ -z ${height[$included]+known} ]]; then
    continue  # a generated header, or one beside the file
  elif ((height[$included] > height[$layer])); then
    echo "$file:$line: $layer includes $included, which is above it"; wrong=1
  fi
done < <(grep -rnE --include='*.h' --include='*.cc' --include='*.cu' --include='*.inc' \
           '^#include "[a-z_]+/' src)

# Only cli reads the environment, prints and ends the process.
forbidden='\b(getenv|secure_getenv)\(|std::(cout|cerr)|\bstd::exit\('
if grep -rnE --include='*.h' --include='*.cc' "$forbidden" src |
     grep -vE '^src/cli/|_(test|bench)\.cc:'; then
  echo "the lines above belong into src/cli"; wrong=1
fi
((wrong == 0)) && echo "layers: ${layers[*]}"
exit $wrong
