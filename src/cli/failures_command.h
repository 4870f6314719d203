#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme failures` after parsing.
struct FailuresOptions {
  std::string run_dir;  // "": print the rules
  std::string rules;    // file of rules on top of the built-in ones; "": none
  bool json = false;
};

// Prints the failures of a run with their classes, what usually causes them, and what to do.
Result<int> run_failures(const FailuresOptions& options, CommandIo& io);

}  // namespace trireme
