#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme status` and `trireme stop` after parsing.
struct StatusOptions {
  std::string run_dir;  // for status also HOST:PORT of an agent of the job
  bool json = false;
  bool watch = false;  // print it again whenever it changes, until the run ends
};

// Prints who runs where, the epoch, the step and the last failures of a run of `trireme launch`.
Result<int> run_status(const StatusOptions& options, CommandIo& io);
// Asks such a run on this host to save and end.
Result<int> run_stop(const StatusOptions& options, CommandIo& io);

// `trireme drain` after parsing.
struct DrainOptions {
  std::string run_dir;
  std::string host;
};
// Asks such a run to go on without a host.
Result<int> run_drain(const DrainOptions& options, CommandIo& io);

}  // namespace trireme
