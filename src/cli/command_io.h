#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "cli/launch.h"

namespace trireme {

// The parts of the process that a command may use. Data go to `out`, progress and messages to
// `err`.
struct CommandIo {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;            // a progress line may be redrawn
  bool color = false;                      // err shows colours
  std::vector<std::string> model_folders;  // where model.preset is searched
  std::string stores_folder = {};          // of the files of stores; "": none is known
  Launch launch;
  // Opens files that are not on this machine, such as store://NAME/PATH; empty: none can be.
  OpenInput open_input = {};
};

}  // namespace trireme
