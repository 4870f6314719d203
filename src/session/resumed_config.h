#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/load.h"
#include "compile/run_plan.h"

namespace trireme {

// Whether a key says which function the weights are of: such a key must stay.
bool is_model_key(std::string_view key);

// What a run that goes on from a checkpoint does otherwise than the one that wrote it:
// "optim.lr 0.003 -> 0.001, run.steps 20 -> 40"; "": nothing that changes results. How ranks share
// the work is left out. Refuses another model, even one whose tensors have the same shapes: the
// weights were trained for theirs.
Result<std::string> changes_since(const Checkpoint& checkpoint, const RunPlan& plan);

}  // namespace trireme
