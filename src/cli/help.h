#pragma once

#include <string>

#include "cli/options.h"

namespace trireme {

// "trireme train RUN.toml... [options]"
std::string usage_line(const Command& command, const std::string& path);

// What --help prints, wrapped to `columns`.
std::string help_text(const Command& command, const std::string& path, int columns);

// trireme(1) in troff, every subcommand included.
std::string man_page(const Command& root, const std::string& version);

// The command reference of docs/cli.md.
std::string command_markdown(const Command& root);

}  // namespace trireme
