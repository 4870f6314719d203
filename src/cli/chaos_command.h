#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme chaos RUN.toml ...` after parsing.
struct ChaosOptions {
  RunConfigOptions config;
  std::string out;  // "": runs/NAME-chaos
  std::string faults = "kill,stop";
  std::string points;  // "": all that the job reaches
  double mtbf_s = 15.0;
  uint64_t seed = 1;
  std::optional<int64_t> steps;      // instead of run.steps
  std::optional<double> duration_s;  // of the undisturbed run
  std::optional<int64_t> most_faults;
  bool json = false;
};

// Runs a job undisturbed, and again under faults, and compares the two bit by bit. Exit code 0 only
// if every fault was survived and all bits are equal, else 5; 130 after a signal. If the
// undisturbed run fails, the error is of the kind of its exit code.
Result<int> run_chaos(const ChaosOptions& options, CommandIo& io);

}  // namespace trireme
