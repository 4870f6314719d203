#pragma once

#include <cstdint>

#include "predict/predict.h"

namespace trireme {

// What one rank has measured in its steps.
struct RankMeasurement {
  int position = 0;  // in the mesh
  int64_t peak_bytes = 0;
  StepTimes time;
  AxisBytes traffic;
};

}  // namespace trireme
