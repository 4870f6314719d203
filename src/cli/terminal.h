#pragma once

#include <string>

#include "cli/launch.h"

namespace trireme {

// The environment variables that the program uses. main reads them once.
struct Environment {
  bool no_color = false;      // NO_COLOR is set and not empty
  bool ci = false;            // CI is set: progress goes to a log, even on a terminal
  bool dumb = false;          // TERM=dumb
  std::string path;           // value of PATH
  std::string stores_folder;  // TRIREME_STORES, or .trireme/stores in HOME
  Launch launch;
};
Environment read_environment();

bool is_terminal(int fd);

// Returns the current number of columns of the terminal at `fd`, or 80 if it is unknown.
int terminal_columns(int fd);

}  // namespace trireme
