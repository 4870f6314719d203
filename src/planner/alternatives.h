#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "compile/run_plan.h"
#include "spec/hardware.h"

namespace trireme {

// The same run with another recomputation or micro-batch, which train the same model: what it would
// need and take.
struct Alternative {
  Recompute recompute = Recompute::None;
  int64_t micro_sequences = 0;
  int64_t arena_bytes = 0;  // of all ranks; of the largest where memory.limit_bytes limits ranks
  double step_s = 0.0;
  bool is_configured = false;
  std::string refusal;  // "" where it can run
};

// Fastest first; what cannot run comes last. `host` says what is available.
Result<std::vector<Alternative>> alternatives(const RunConfig& config, const HostFacts& host,
                                              const Hardware& hardware);

}  // namespace trireme
