#!/usr/bin/env bash
# Compares what the layers include with tools/layers.txt: every edge must stand there, every edge
# there must be used, and a layer must stand below those that it includes.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
wrong=0
refuse() { echo "$*"; wrong=1; }

declare -A height
names=()
allowed=$(mktemp) used=$(mktemp)
trap 'rm -f "$allowed" "$used"' EXIT
declare -A reached  # by a layer: the layers that it includes, and those that these include
while IFS=: read -r who layers; do
  name=${who%% *}
  if [[ $who == "$name" ]]; then
    height[$name]=${#names[@]}
    names+=("$name")
    [[ -d src/$name ]] || refuse "tools/layers.txt: src/$name is not there"
  fi
  for layer in $layers; do
    if [[ $who == *" never" ]]; then
      [[ " ${reached[$name]-} " != *" $layer "* ]] ||
        refuse "tools/layers.txt: $name reaches $layer"
      continue
    fi
    echo "$who: $layer" >>"$allowed"
    [[ $who == *" tests" ]] && continue
    [[ -n ${height[$layer]+listed} ]] ||
      refuse "tools/layers.txt: $layer does not stand above $name, which includes it"
    reached[$name]+=" $layer ${reached[$layer]-}"
  done
done < <(grep -E '^[a-z]' tools/layers.txt)
for folder in src/*/; do
  folder=${folder#src/}
  [[ -n ${height[${folder%/}]+listed} ]] || refuse "src/$folder is not in tools/layers.txt"
done

# Prints "layer: layer file" for every include of one layer by another. A generated header, or one
# of include/, belongs to no layer.
includes() {
  grep -rnE --include='*.h' --include='*.cc' --include='*.cu' --include='*.inc' \
      '^#include "[a-z_]+/' src |
    sed -E 's,^src/([a-z_]+)/([^:]*:[0-9]+):#include "([a-z_]+)/.*,\1 \3 src/\1/\2,' |
    while read -r layer included file; do
      [[ $layer != "$included" && -n ${height[$included]+listed} ]] || continue
      if [[ $file =~ _(test|bench)\.cc:|_(fixture|cases)\.h:|/test_[a-z_]+\.h: ]]; then
        echo "$layer tests: $included $file"
      else
        echo "$layer: $included $file"
      fi
    done
}

includes >"$used"
# What a layer includes itself, its tests may include too.
while read -r line; do refuse "$line"; done < <(
  awk 'NR == FNR { allowed[$0] = 1; next }
       { file = $NF; edge = substr($0, 1, length($0) - length(file) - 1); own = edge }
       sub(/ tests:/, ":", own) && own in allowed { next }
       edge in allowed { seen[edge] = 1; next }
       { print file ": tools/layers.txt does not have the edge \"" edge "\"" }
       END { for (edge in allowed) {
               if (!(edge in seen)) print "tools/layers.txt: nothing uses the edge \"" edge "\""
             } }' \
    "$allowed" "$used")

# Only cli reads the environment, prints and ends the process.
forbidden='\b(getenv|secure_getenv)\(|std::(cout|cerr)|\bstd::exit\('
if grep -rnE --include='*.h' --include='*.cc' "$forbidden" src |
     grep -vE '^src/cli/|_(test|bench)\.cc:'; then
  refuse "the lines above belong into src/cli"
fi
((wrong == 0)) && echo "layers: ${names[*]}"
exit $wrong
