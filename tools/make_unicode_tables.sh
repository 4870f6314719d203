#!/bin/sh
# Writes src/tokenizer/unicode_classes.inc from Debian's unicode-data (package unicode-data):
#   tools/make_unicode_tables.sh > src/tokenizer/unicode_classes.inc
set -eu
data=${1:-/usr/share/unicode}
version=$(sed -n '1s/^# PropList-\(.*\)\.txt$/\1/p' "$data/PropList.txt")

{ grep '; White_Space' "$data/PropList.txt"; echo '; UnicodeData'; cat "$data/UnicodeData.txt"; } |
  awk -F';' -v version="$version" '
    function number(hex,   value, i) {
      value = 0
      for (i = 1; i <= length(hex); i++)
        value = value * 16 + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
      return value
    }
    function mark(first, last, class,   code_point) {
      for (code_point = first; code_point <= last; code_point++) class_of[code_point] = class
    }
    /^; UnicodeData/ { in_data = 1; next }
    !in_data {
      split($1, range, "[. ]+")
      first = number(range[1])
      mark(first, $1 ~ /\.\./ ? number(range[2]) : first, "S")
      next
    }
    {
      class = substr($3, 1, 1)
      code_point = number($1)
      if ($2 ~ /, First>$/) { first = code_point; next }
      if ($2 !~ /, Last>$/) first = code_point
      if (class == "L" || class == "N") mark(first, code_point, class)
    }
    END {
      print "// Made by tools/make_unicode_tables.sh from Unicode " version ": do not edit."
      print "// X(first) begins a run of code points of class X: Letter, Number, Space " \
            "(White_Space), Other."
      line = ""
      for (code_point = 0; code_point < 1114112; code_point++) {
        class = (code_point in class_of) ? class_of[code_point] : "O"
        if (class == previous) continue
        previous = class
        entry = sprintf("%s(0x%X),", class, code_point)
        if (length(line) + length(entry) > 100) { print line; line = "" }
        line = line entry
      }
      print line
    }'
