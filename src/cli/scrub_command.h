#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme scrub` after parsing.
struct ScrubCommandOptions {
  std::vector<std::string> folders;
  bool verifies_only = false;
  int threads = 0;  // 0: all cores
  bool json = false;
};

// Verifies every checkpoint in the folders, repairs what parity can repair, and says what is
// damaged. A Damaged error if something stays damaged.
Result<int> run_scrub(const ScrubCommandOptions& options, CommandIo& io);

}  // namespace trireme
