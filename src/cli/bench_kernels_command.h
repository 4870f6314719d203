#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

struct MatmulBaseline;

// `trireme bench kernels` after parsing.
struct BenchKernelsOptions {
  std::string family;  // "": all families
  std::string filter;  // only rows whose name contains it
  std::string isa;     // "": the best of this CPU
  int threads = 0;     // 0: all cores
  bool json = false;
  const MatmulBaseline* baseline = nullptr;  // absent: products are measured without a comparison
};

// Times kernels and compares them with the machine's ceilings, which are measured again after each
// family.
Result<int> run_bench_kernels(const BenchKernelsOptions& options, CommandIo& io);

}  // namespace trireme
