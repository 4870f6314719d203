#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme calibrate` after parsing.
struct CalibrateOptions {
  std::string out;  // "": standard output
  int threads = 0;  // 0: all cores
};

// Measures this machine and writes its hardware file.
Result<int> run_calibrate(const CalibrateOptions& options, CommandIo& io);

}  // namespace trireme
