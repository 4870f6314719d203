#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme sweep RUN.toml ...` after parsing.
struct SweepOptions {
  RunConfigOptions config;
  std::vector<std::string> over;  // KEY=SPEC
  std::string lr_range;           // "A..B": a learning-rate range test instead of a sweep
  std::optional<int64_t> steps;   // of the range test, instead of run.steps
  std::string resume;             // the checkpoint with which every trial begins; "": none
  std::string out;                // "": runs/NAME-sweep, or runs/NAME-lr-range
  uint64_t seed = 1;              // of the random points
  std::optional<int64_t> random;  // number of random points; absent: the whole grid
  bool no_early_stop = false;
  double grace = 0.25;  // share of the steps within which no trial is stopped
  bool json = false;
};

// Runs one training run after the other, each in a folder of its own, and compares them. The table
// goes to io.out. Exit code 130 after a signal; 5 if a trial has failed or none has finished.
Result<int> run_sweep(const SweepOptions& options, CommandIo& io);

}  // namespace trireme
