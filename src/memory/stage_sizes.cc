#include "memory/stage_sizes.h"

#include <algorithm>

#include "base/align.h"

namespace trireme {
namespace {

StageSpec with_one_layer(StageSpec stage) {
  stage.num_layers = std::min<int64_t>(stage.num_layers, 1);
  return stage;
}

}  // namespace

SizesOfStage::SizesOfStage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape)
    : shard_(shard_model(model, shape)),
      shape_(shape),
      units_(stage_units(model, with_one_layer(stage), shape)) {
  for (const StageUnit& unit : units_.units) {
    if (!unit.prefix.empty()) layer_ = unit.kind;
  }
}

StageSizes SizesOfStage::with(uint64_t again) {
  StageSizes sizes;
  if (layer_ >= 0) {
    UnitKind& layer = units_.kinds[size_t(layer_)];
    layer.kept = keep(layer.graph, {Recompute::Fit, again});
    layer.memory = unit_memory(layer.graph, shard_, shape_, layer.kept, false);
    for (const UnitTensor& tensor : layer.memory.tensors) {
      if (tensor.space != Space::Saved) continue;
      sizes.saved_by_layer += aligned_bytes(tensor.shape.num_elements() * size_of(tensor.dtype));
    }
  }
  StageTables tables;
  add_activations(tables, units_, shard_, shape_);
  sizes.scratch = tables.scratch.bytes();
  return sizes;
}

}  // namespace trireme
