#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/launch.h"

namespace trireme {

// What a command may touch of its process. Data goes to `out`, progress and logs to `err`.
struct CommandIo {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;            // a progress line may be redrawn
  bool color = false;                      // err takes colours
  std::vector<std::string> model_folders;  // where model.preset is looked for
  Launch launch;
};

}  // namespace trireme
