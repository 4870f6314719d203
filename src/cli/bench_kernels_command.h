#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme bench kernels` after parsing.
struct BenchKernelsOptions {
  std::string filter;  // only rows whose name contains it
  int threads = 0;     // 0: all cores
  bool json = false;
};

// Times kernels beside the machine's measured ceilings.
Result<int> run_bench_kernels(const BenchKernelsOptions& options, CommandIo& io);

}  // namespace trireme
