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
  std::string resume;    // "", "auto" or the folder of a checkpoint
  bool dry_run = false;  // prints the plan and exits
  bool check = false;    // compares the ranks with each other, and exits
  bool json = false;     // with dry_run: prints plan.json; with check: JSON
};

// The folder of a run: `out`, or by default runs/ and the name of the last configuration.
std::string run_folder_of(const RunConfigOptions& config, const std::string& out);

// The first rank of `trireme launch --check` writes its report into these files of its folder, from
// which the launcher reads it.
inline constexpr const char* kPreflightJson = "preflight.json";
inline constexpr const char* kPreflightText = "preflight.txt";

// Progress goes to io.err. Exit code 130 if a signal or run.stop_after ended the run.
Result<int> run_train(const TrainOptions& options, CommandIo& io);

}  // namespace trireme
