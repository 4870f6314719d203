#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/options.h"

namespace trireme {

// Returns a script for "bash", "zsh" or "fish" that completes subcommands, options, their values,
// files, and the keys of RUN.toml after --set.
Result<std::string> completion_script(const Command& root, std::string_view shell);

}  // namespace trireme
