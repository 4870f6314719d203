#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

struct MatmulBaseline;

// `trireme bench kernels` after parsing.
struct BenchKernelsOptions {
  std::string family;  // "": all
  std::string filter;  // only rows whose name contains it
  std::string isa;     // "": the best that the CPU has
  int threads = 0;     // 0: all cores
  bool json = false;
  const MatmulBaseline* baseline = nullptr;  // absent: products stand alone
};

// Times kernels beside the machine's ceilings, which are measured again after each family.
Result<int> run_bench_kernels(const BenchKernelsOptions& options, CommandIo& io);

}  // namespace trireme
