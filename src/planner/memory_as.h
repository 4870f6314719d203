#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "planner/trainer_rules.h"

namespace trireme {

// Bytes that a rank of another program would hold for the run of a plan. They follow the formulas
// of the literature, without fragments, contexts of devices and buffers of libraries.
struct TrainerMemory {
  double params = 0.0;
  double grads = 0.0;
  double optimizer = 0.0;
  double blocks = 0.0;       // whole blocks that are gathered while they compute
  double activations = 0.0;  // of all micro-batches alive, with one layer that is recomputed
  double logits = 0.0;       // and their gradient, in fp32

  double total() const { return params + grads + optimizer + blocks + activations + logits; }
};

// Returns the memory of the ranks of each stage, [pp]. Infeasible if the program cannot run the
// plan.
Result<std::vector<TrainerMemory>> memory_as(const RunPlan& plan, const TrainerRules& rules);

// Returns the memory of the stage that needs the most.
TrainerMemory greatest(const std::vector<TrainerMemory>& stages);

}  // namespace trireme
