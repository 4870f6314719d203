#pragma once

#include <string>

#include "cli/launch.h"

namespace trireme {

// The environment of the process, read once in main.
struct Environment {
  bool no_color = false;  // NO_COLOR is set and not empty
  bool ci = false;        // CI is set: prints as to a log, even on a terminal
  bool dumb = false;      // TERM=dumb
  std::string path;       // value of PATH
  Launch launch;
};
Environment read_environment();

bool is_terminal(int fd);

// Returns the current width of the terminal behind `fd`, or 80 if it is unknown.
int terminal_columns(int fd);

}  // namespace trireme
