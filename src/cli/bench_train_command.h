#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme bench train` after parsing.
struct BenchTrainOptions {
  RunConfigOptions config;
  int64_t steps = 0;  // timed ones; 0: what takes a few seconds
  bool json = false;
};

// Times whole training steps without files.
Result<int> run_bench_train(const BenchTrainOptions& options, CommandIo& io);

}  // namespace trireme
