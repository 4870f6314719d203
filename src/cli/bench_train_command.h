#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme bench train` after parsing.
struct BenchTrainOptions {
  RunConfigOptions config;
  int64_t steps = 0;  // timed steps; 0: as many as take a few seconds
  bool times_ops = false;
  bool json = false;
};

// Times whole training steps. It writes no files.
Result<int> run_bench_train(const BenchTrainOptions& options, CommandIo& io);

}  // namespace trireme
