#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

struct DoctorOptions {
  bool json = false;
  std::string search_path;  // value of PATH
};

// The result of one check.
struct Finding {
  enum class State { Good, Note, Bad };  // Bad: training cannot run on this machine
  State state = State::Good;
  std::string what;    // such as "huge pages"
  std::string found;   // such as "madvise"
  std::string remedy;  // a command that changes it, or ""
};

std::vector<Finding> examine_machine(const std::string& search_path);

// Prints what this machine has and lacks. Exit code 5 if training cannot run on it.
Result<int> run_doctor(const DoctorOptions& options, CommandIo& io);

}  // namespace trireme
