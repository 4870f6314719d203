#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

struct ShellWord {
  std::string text;
  int line = 0;  // where it was written; for an element of an array, its line in the array
};
using ShellCommand = std::vector<ShellWord>;

// Returns the commands of a shell script as far as a launch script needs them: quotes, comments,
// lines that end in \, variables, arrays and $(( )). It runs nothing: the words of loops and
// conditions are commands as well, and a variable without a value stays as it is written, "$NAME".
Result<std::vector<ShellCommand>> parse_shell(std::string_view text, const std::string& source);

}  // namespace trireme
