#pragma once

#include "schema/model_spec.h"

namespace trireme {

// Returns the number of layers and modules of multi-token prediction of a stage, each of which has
// a block. A module recomputes nothing.
inline int64_t num_blocks(const ModelSpec& model, const StageSpec& stage) {
  return stage.num_layers + (stage.has_head ? model.mtp_depth : 0);
}

// Returns the number of these blocks that have experts.
inline int64_t num_expert_blocks(const ModelSpec& model, const StageSpec& stage) {
  int64_t count = 0;
  for (const LayerRun& run : layer_runs(model, stage)) {
    if (model.has_experts(run.first)) count += run.count;
  }
  const int64_t num_modules = num_blocks(model, stage) - stage.num_layers;
  return count + (model.has_experts() ? num_modules : 0);
}

}  // namespace trireme
