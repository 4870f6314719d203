#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme launch RUN.toml ...` after parsing.
struct LaunchOptions {
  RunConfigOptions config;
  std::string out;     // run directory; "": as for train
  std::string resume;  // "", "auto" or the folder of a checkpoint
};

// Starts `trireme train` once for every rank of the configuration. Returns the exit code of the
// rank that failed first, or 130 if the run was stopped and has saved.
Result<int> run_launch(const LaunchOptions& options, CommandIo& io);

}  // namespace trireme
