#pragma once

#include <string>
#include <string_view>

#include "agent/rank_exit_code.h"
#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// Returns the exit code of a failure (docs/cli.md).
int exit_code(ErrorKind kind);
// Returns the kind of a failure of a child of this program that ended with a code other than 0.
ErrorKind kind_of_exit(int code);

// Prints every line of the message as an error, in red on a terminal.
void print_error(std::string_view message, CommandIo& io);

// Puts the path of the command before each problem of the error.
Error in_command(const Error& error, const std::string& path);

}  // namespace trireme
