#include "cli/bench_train_command.h"

namespace trireme {

Result<int> run_bench_train(const BenchTrainOptions&, CommandIo&) {
  return Error{ErrorKind::Runtime, "not part of this build"};
}

}  // namespace trireme
