#include "planner/memory_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/align.h"
#include "graph/op_tensors.h"
#include "memory/stage_units.h"

namespace trireme {
namespace {

double unaligned_bytes(const TensorTable& table) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : table.tensors()) bytes += double(tensor.bytes());
  return bytes;
}

StoredBytes difference(const StoredBytes& whole, const StoredBytes& part) {
  return {whole.params - part.params, whole.grads - part.grads, whole.optimizer - part.optimizer};
}

StageTables activations_of(const ModelSpec& model, const StageSpec& stage,
                           const StageShape& shape) {
  StageTables tables;
  add_activations(tables, stage_units(model, stage, shape), shard_model(model, shape), shape);
  return tables;
}

// Bytes that a stage saves once, however many layers it has.
int64_t saved_once(const TensorTable& saved) {
  int64_t bytes = aligned_bytes(saved.at(kStageOutput).bytes());
  for (const char* name : {kDocumentFirst, kDocumentPosition, kDocumentFirstOfWhole}) {
    if (saved.contains(name)) bytes += aligned_bytes(saved.at(name).bytes());
  }
  return bytes;
}

}  // namespace

StoredBytes stored_bytes(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  const StageTables tables = stored_tables(model, stage, shape);
  return {unaligned_bytes(tables.params), unaligned_bytes(tables.grads),
          unaligned_bytes(tables.optimizer)};
}

StoredBytes smaller(const StoredBytes& a, const StoredBytes& b) {
  return {std::min(a.params, b.params), std::min(a.grads, b.grads),
          std::min(a.optimizer, b.optimizer)};
}

StoredBytes EndBytes::of(bool has_embedding, bool has_head) const {
  if (has_embedding && has_head) return both;
  if (has_embedding) return embedding;
  return has_head ? head : StoredBytes{};
}

// An end is what it adds to a layer.
EndBytes end_bytes(const ModelSpec& model, const StageShape& shape) {
  const auto stored = [&](int64_t layer, bool has_embedding, bool has_head) {
    return stored_bytes(model, {layer, 1, has_embedding, has_head}, shape);
  };
  const int64_t last = model.layers - 1;
  const StoredBytes of_first = stored(0, false, false);
  return {.embedding = difference(stored(0, true, false), of_first),
          .head = difference(stored(last, false, true), stored(last, false, false)),
          .both = difference(stored(0, true, true), of_first)};
}

// The scratch of a chunk has each tensor of its units once, so that of a layer and what the head
// adds do not overlap.
ActivationBytes activation_bytes(const ModelSpec& model, const StageShape& shape) {
  constexpr double kMost = std::numeric_limits<double>::max();
  ActivationBytes least{.layer_saved = kMost, .layer_scratch = kMost};
  const StageSpec last_layer{model.layers - 1, 1, false, false};
  const int last_kind = layer_runs(model, last_layer).front().kind;
  StageTables last;
  for (const LayerRun& run : layer_kinds(model)) {
    StageTables layer = activations_of(model, {run.first, 1, false, false}, shape);
    const double saved = double(layer.saved.bytes() - saved_once(layer.saved));
    least.layer_saved = std::min(least.layer_saved, saved);
    least.layer_scratch = std::min(least.layer_scratch, double(layer.scratch.bytes()));
    if (run.kind == last_kind) last = std::move(layer);
  }
  const StageTables with_head =
      activations_of(model, {last_layer.first_layer, 1, false, true}, shape);
  const auto more = [](const TensorTable& whole, const TensorTable& part) {
    return std::max(0.0, double(whole.bytes() - part.bytes()));
  };
  least.head_saved = more(with_head.saved, last.saved);
  least.head_scratch = more(with_head.scratch, last.scratch);
  return least;
}

ActivationBytes smaller(const ActivationBytes& a, const ActivationBytes& b) {
  return {std::min(a.layer_saved, b.layer_saved), std::min(a.head_saved, b.head_saved),
          std::min(a.layer_scratch, b.layer_scratch), std::min(a.head_scratch, b.head_scratch)};
}

}  // namespace trireme
