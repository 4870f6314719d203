#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/isa.h"
#include "predict/fit_operators.h"

namespace trireme {

struct CalibrationOptions {
  int num_threads = 1;
  Isa isa = Isa::Avx2;
  std::string folder;       // its disk is that of memory.offload
  double most_seconds = 0;  // for repeating; every kernel is called a few times in any case
};

struct Calibration {
  Hardware hardware;  // of all threads together
  // The errors say how far the prices with these numbers are from what was measured, by operator.
  std::vector<std::pair<std::string, PriceErrors>> errors;
  std::optional<double> taken_by_others;  // share of the cores during the measurement, if known
  double seconds = 0.0;
};

// Measures this machine: its ceilings, kernels, collectives between ranks that are threads, and the
// disk of memory.offload. Fits the numbers by which runs are priced (fit_operators).
Calibration calibrate(const CalibrationOptions& options);

}  // namespace trireme
