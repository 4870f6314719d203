#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

struct DoctorOptions {
  bool json = false;
  std::string search_path;  // PATH
};

// One thing that was looked at.
struct Finding {
  enum class State { Good, Note, Bad };  // Bad: training cannot run here
  State state = State::Good;
  std::string what;    // "huge pages"
  std::string found;   // "madvise"
  std::string remedy;  // "" or the command that changes it
};

std::vector<Finding> examine_machine(const std::string& search_path);

// Prints what this machine offers and lacks; exit code 5 where training cannot run on it.
Result<int> run_doctor(const DoctorOptions& options, CommandIo& io);

}  // namespace trireme
