#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "chaos/run_log.h"

namespace trireme {

// Two runs, compared bit by bit. A text is "" if they are equal, else the first difference.
struct Comparison {
  int64_t steps = 0;  // that were compared
  std::string losses, norms, weights;

  bool all_equal() const { return losses.empty() && norms.empty() && weights.empty(); }
};

// Compares the losses and gradient norms of all steps, each of which must stand there once.
void compare_steps(const RunLog& oracle, const RunLog& disturbed, Comparison& comparison);

// Compares the weights and the state of the optimizer in two checkpoints, whatever layouts have
// written them. Returns "" or the first difference.
std::string compare_checkpoints(const std::string& oracle, const std::string& disturbed);

}  // namespace trireme
