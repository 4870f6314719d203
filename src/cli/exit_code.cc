#include "cli/exit_code.h"

#include <algorithm>
#include <ostream>

#include "cli/printable.h"

namespace trireme {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage:
      return 2;
    case ErrorKind::Infeasible:
      return 3;
    case ErrorKind::Damaged:
      return 4;
    case ErrorKind::Runtime:
      break;
  }
  return kFailedExitCode;
}

ErrorKind kind_of_exit(int code) {
  for (const ErrorKind kind : {ErrorKind::Usage, ErrorKind::Infeasible, ErrorKind::Damaged}) {
    if (exit_code(kind) == code) return kind;
  }
  return ErrorKind::Runtime;
}

void print_error(std::string_view message, CommandIo& io) {
  size_t begin = 0;
  while (begin <= message.size()) {
    const size_t end = std::min(message.find('\n', begin), message.size());
    if (io.color) write_control(io.err, "\x1b[1;31m");
    io.err << "error:";
    if (io.color) write_control(io.err, "\x1b[0m");
    io.err << " " << message.substr(begin, end - begin) << "\n";
    begin = end + 1;
  }
}

// A line that begins with a space explains the line above and is not a problem of its own.
Error in_command(const Error& error, const std::string& path) {
  std::string message = path + ": ";
  for (size_t i = 0; i < error.message.size(); ++i) {
    message += error.message[i];
    const bool begins_another =
        error.message[i] == '\n' && i + 1 < error.message.size() && error.message[i + 1] != ' ';
    if (begins_another) message += path + ": ";
  }
  return {error.kind, message};
}

}  // namespace trireme
