#include "cli/bench_kernels_command.h"

namespace trireme {

Result<int> run_bench_kernels(const BenchKernelsOptions&, CommandIo&) {
  return Error{ErrorKind::Runtime, "not part of this build"};
}

}  // namespace trireme
