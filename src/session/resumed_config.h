#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/load.h"
#include "compile/run_plan.h"

namespace trireme {

// True if the key is part of the function that the weights compute. Such a key must not change.
bool is_model_key(std::string_view key);

// An error if `config`, whose model is `model`, computes another function than the checkpoint's run
// `was`. Its message ends with `remedy`.
Status check_same_model(const RunConfig& was, const RunConfig& config, const ModelSpec& model,
                        const std::string& folder, std::string_view remedy);

// Returns the settings that differ from those of the run that wrote the checkpoint and that change
// results, such as "optim.lr 0.003 -> 0.001, run.steps 20 -> 40"; "" if there are none. The layout
// of ranks is ignored. It is an error if the model differs, even if all its tensors have the same
// shapes, because the weights were trained for the other model, or if a parameter was frozen and
// has no state of the optimizer.
Result<std::string> changes_since(const Checkpoint& checkpoint, const RunPlan& plan);

}  // namespace trireme
