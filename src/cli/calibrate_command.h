#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme calibrate` after parsing.
struct CalibrateOptions {
  std::string out;        // "": standard output
  int threads = 0;        // 0: all cores
  double seconds = 60.0;  // for repeating measurements until they are stable
};
inline constexpr double kMostCalibrationSeconds = 3600.0;

// Measures this machine and writes its hardware file.
Result<int> run_calibrate(const CalibrateOptions& options, CommandIo& io);

}  // namespace trireme
