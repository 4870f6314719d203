#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

// The results of a run as its metrics.jsonl has them. They are needed if the first rank was lost
// after the last step and before it has written summary.json.
struct RecordedRun {
  int64_t steps = 0;
  double final_loss = NAN;     // NaN: unknown
  double step_s = 0.0;         // median, without the first two; 0: unknown
  double val_loss = 0.0;       // 0: not evaluated
  double bits_per_byte = 0.0;  // 0: unknown
  std::optional<double> val_accuracy;
  std::optional<double> epoch;
};

// Lines that are damaged or cut are left out.
RecordedRun recorded_run(std::string_view metrics);

}  // namespace trireme
