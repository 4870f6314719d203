#pragma once

#include "memory/stage_tables.h"
#include "memory/stage_units.h"

namespace trireme {

// The bytes of a stage's tables that depend on what its layers compute again. The whole stage saves
// num_layers * saved_by_layer and something that does not depend on it.
struct StageSizes {
  int64_t saved_by_layer = 0;
  int64_t scratch = 0;
};

// Sizes of one stage for any set of values (Recompute::Fit), from the function that stage_tables
// reads, but without its parameters and with one layer.
class SizesOfStage {
 public:
  SizesOfStage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);
  StageSizes with(uint64_t again);

 private:
  ModelShard shard_;
  StageShape shape_;
  StageUnits units_;
  int layer_ = -1;  // index in units_.kinds; -1: the stage has no layers
};

}  // namespace trireme
