#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

inline constexpr int kStoppedExitCode = 130;  // stopped by a signal or run.stop_after

// Returns the exit code of a failure (docs/cli.md).
int exit_code(ErrorKind kind);

// Prints every line of the message as an error, in red on a terminal.
void print_error(std::string_view message, CommandIo& io);

// Puts the path of the command before each problem of the error.
Error in_command(const Error& error, const std::string& path);

}  // namespace trireme
