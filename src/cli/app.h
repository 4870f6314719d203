#pragma once

#include <span>
#include <string>

#include "cli/command_io.h"
#include "cli/terminal.h"

namespace trireme {

// Parses the arguments, runs the command and reports errors. Returns the exit code of the process.
// `columns` is the width of the help text.
int run_app(std::span<const std::string> args, const Environment& environment, CommandIo& io,
            int columns);

}  // namespace trireme
