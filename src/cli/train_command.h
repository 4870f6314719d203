#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme train RUN.toml ...` after parsing.
struct TrainOptions {
  RunConfigOptions config;
  std::string out;       // run directory; "": runs/ and the name of the last file
  std::string resume;    // "", "auto" or a checkpoint's folder
  bool dry_run = false;  // print the plan and leave
  bool json = false;     // with dry_run: as plan.json
};

// Progress goes to io.err. Exit code 130 when a signal or run.stop_after ended the run.
Result<int> run_train(const TrainOptions& options, CommandIo& io);

}  // namespace trireme
