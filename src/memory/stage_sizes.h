#pragma once

#include <optional>

#include "graph/layer_keep.h"
#include "memory/stage_tables.h"
#include "memory/stage_units.h"

namespace trireme {

// The bytes of a stage's tables that depend on what its layers compute again. The whole stage saves
// as much for each of its layers, and something that does not depend on it.
struct StageSizes {
  std::vector<int64_t> saved_by_layer;  // [kind of layer]; 0 for kinds that the stage has not
  int64_t scratch = 0;
};

// Sizes of one stage for any set of values (Recompute::Fit), from the function that stage_tables
// reads, but without its parameters and with one layer of each kind.
class SizesOfStage {
 public:
  SizesOfStage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);
  StageSizes with(uint64_t again);

 private:
  ModelShard shard_;
  StageShape shape_;
  StageUnits units_;
  struct Layer {
    int unit = -1;  // index in units_.kinds; -1: the stage has none of this kind
    std::optional<AgainBits> bits;
  };
  std::vector<Layer> layers_;  // [kind of layer]
};

}  // namespace trireme
