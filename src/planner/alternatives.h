#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// A run with another recomputation or micro-batch size. It trains the same model; only memory and
// time differ.
struct Alternative {
  Recompute recompute = Recompute::None;
  int64_t micro_sequences = 0;
  int64_t arena_bytes = 0;  // of the rank that allocates the most
  double step_s = 0.0;
  bool is_configured = false;
  std::string refusal;  // why it cannot run; empty if it can
};

// Sorted by time, fastest first; alternatives that cannot run come last. `host` says what is
// available.
Result<std::vector<Alternative>> alternatives(const RunConfig& config, const HostFacts& host,
                                              const Hardware& hardware);

}  // namespace trireme
