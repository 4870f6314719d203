#pragma once

#include <string>

#include "cli/launch.h"

namespace trireme {

// What the process is told from outside; read once, in main.
struct Environment {
  bool no_color = false;  // NO_COLOR is set and not empty
  bool ci = false;        // CI is set: a log, whatever the terminal says
  bool dumb = false;      // TERM=dumb
  std::string path;       // PATH
  Launch launch;
};
Environment read_environment();

bool is_terminal(int fd);

// Columns of the terminal behind `fd` at this moment; 80 where it does not say.
int terminal_columns(int fd);

}  // namespace trireme
