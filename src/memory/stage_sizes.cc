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
    : shard_(shard_model(model, shape)),
      shape_(shape),
      units_(stage_units(model, with_few_layers(model, stage), shape)),
      layers_(layer_kinds(model).size()) {
  shape_.recompute = Recompute::Fit;
  const StageSpec few = with_few_layers(model, stage);
  size_t unit = stage.has_embedding ? 1 : 0;
  for (const LayerRun& run : layer_runs(model, few)) {
    Layer& layer = layers_[size_t(run.kind)];
    layer.unit = units_.units[unit].kind;
    layer.bits.emplace(model, units_.kinds[size_t(layer.unit)].graph);
    unit += size_t(run.count);
  }
}

StageSizes SizesOfStage::with(uint64_t again) {
  StageSizes sizes;
  shape_.again = again;
  for (const Layer& of_kind : layers_) {
    int64_t& saved = sizes.saved_by_layer.emplace_back(0);
    if (of_kind.unit < 0) continue;
    UnitKind& layer = units_.kinds[size_t(of_kind.unit)];
    layer.kept = keep(layer.graph, of_kind.bits->policy(again));
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
