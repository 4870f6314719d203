#pragma once

#include <string>

#include "cli/options.h"

namespace trireme {

// Returns a line such as "trireme train RUN.toml... [options]".
std::string usage_line(const Command& command, const std::string& path);

// Returns the text of --help, wrapped to `columns`.
std::string help_text(const Command& command, const std::string& path, int columns);

// Returns the manual page trireme(1) in troff, with every subcommand.
std::string man_page(const Command& root, const std::string& version);

// Returns the command reference of docs/cli.md.
std::string command_markdown(const Command& root);

}  // namespace trireme
