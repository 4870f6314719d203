#pragma once

#include <string_view>

#include "base/input_limits.h"
#include "base/result.h"

namespace trireme {

// Refuses a TOML text that is too long, or whose dotted keys, inline tables and arrays are nested
// too deeply, because the parser needs stack for each level. The message begins with the line. The
// parser checks the syntax.
Status check_toml_limits(std::string_view text);

}  // namespace trireme
