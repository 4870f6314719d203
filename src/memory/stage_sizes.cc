#include "memory/stage_sizes.h"

#include "base/align.h"
#include "graph/layer_keep.h"

namespace trireme {
namespace {

// The stage with one layer of each kind that it has; the whole one where layers of more than two
// kinds do not lie together.
StageSpec with_few_layers(const ModelSpec& model, StageSpec stage) {
  const std::vector<LayerRun> runs = layer_runs(model, stage);
  if (runs.empty() || runs.size() > 2) return stage;
  const int64_t last_of_first_kind = runs.front().first + runs.front().count - 1;
  stage.num_layers = int64_t(runs.size());
  stage.first_layer = runs.size() == 1 ? runs.front().first : last_of_first_kind;
  return stage;
}

}  // namespace

SizesOfStage::SizesOfStage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape)
    : model_(model),
      shard_(shard_model(model, shape)),
      shape_(shape),
      units_(stage_units(model, with_few_layers(model, stage), shape)),
      unit_of_layer_(layer_kinds(model).size(), -1) {
  shape_.recompute = Recompute::Fit;
  const StageSpec few = with_few_layers(model, stage);
  size_t unit = stage.has_embedding ? 1 : 0;
  for (const LayerRun& run : layer_runs(model, few)) {
    unit_of_layer_[size_t(run.kind)] = units_.units[unit].kind;
    unit += size_t(run.count);
  }
}

StageSizes SizesOfStage::with(uint64_t again) {
  StageSizes sizes;
  shape_.again = again;
  for (const int unit : unit_of_layer_) {
    int64_t& saved = sizes.saved_by_layer.emplace_back(0);
    if (unit < 0) continue;
    UnitKind& layer = units_.kinds[size_t(unit)];
    layer.kept = keep(layer.graph, policy_of_layer(model_, shape_, layer.graph));
    layer.memory = unit_memory(layer.graph, shard_, shape_, layer.kept, false);
    for (const UnitTensor& tensor : layer.memory.tensors) {
      if (tensor.space != Space::Saved) continue;
      saved += aligned_bytes(tensor.shape.num_elements() * size_of(tensor.dtype));
    }
  }
  StageTables tables;
  add_activations(tables, units_, shard_, shape_);
  sizes.scratch = tables.scratch.bytes();
  return sizes;
}

}  // namespace trireme
