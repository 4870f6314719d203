#include "autoparallel/group_price.h"

#include <algorithm>

#include "compile/unit_price.h"
#include "graph/all_passes.h"
#include "graph/layer_keep.h"
#include "graph/op_tensors.h"
#include "graph/param_table.h"
#include "memory/unit_memory.h"

namespace trireme {
namespace {

double bytes_of(const Stored& stored) {
  return double(stored.rows) * double(stored.cols) * double(size_of(stored.dtype));
}

// Returns the bytes that the op stores from F to W: its outputs, each once, and statistics.
double saved_bytes(const Graph& fused, size_t op, const OpMemory& memory, const ModelShard& shard,
                   const StageShape& layout, const Keep& kept) {
  double bytes = 0.0;
  for (const Stored& output : memory.outputs) {
    if (output.space == Space::Saved || output.space == Space::Output) bytes += bytes_of(output);
  }
  for (const OpTensor& tensor : op_tensors(fused, fused.ops[op], shard, layout)) {
    const bool is_kept =
        tensor.lifetime == Lifetime::Kept || (tensor.lifetime == Lifetime::Forward &&
                                              (!kept.runs_again[op] || kept.keeps_statistics[op]));
    if (is_kept) bytes += double(tensor.shape.num_elements() * size_of(tensor.dtype));
  }
  return bytes;
}

}  // namespace

GroupPrices::GroupPrices(const Graph& stated, int64_t layer, const ModelSpec& model,
                         const OpGroups& groups, const Hardware& hardware)
    : stated_(stated), layer_(layer), model_(model), groups_(groups), hardware_(hardware) {}

const std::vector<GroupPrice>& GroupPrices::of(const StageShape& layout) {
  const auto [known, is_new] = known_.try_emplace(layout);
  if (is_new) known->second = price(layout);
  return known->second;
}

std::vector<GroupPrice> GroupPrices::price(const StageShape& layout) const {
  const ModelShard shard = shard_model(model_, layout);
  const Graph fused = fused_graph(stated_, layout);
  const bool is_layer = layer_ >= 0;
  const Keep kept = keep(fused, is_layer ? policy_of_layer(model_, layout, fused) : KeepPolicy{});
  const UnitMemory memory = unit_memory(fused, shard, layout, kept, stated_.unit == "embedding");
  const std::vector<OpSeconds> seconds =
      price_ops(op_works(fused, shard, layout), model_, layout, hardware_);
  double scratch = 0.0;
  for (const UnitTensor& tensor : memory.tensors) {
    if (tensor.space == Space::Scratch || tensor.space == Space::WeightGrad) {
      scratch += double(tensor.shape.num_elements() * size_of(tensor.dtype));
    }
  }
  std::vector<GroupPrice> prices(groups_.groups().size());
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    const Op& op = fused.ops[i];
    const auto group =
        std::find_if(groups_.groups().begin(), groups_.groups().end(),
                     [&](const OpGroup& candidate) { return candidate.name == op.name; });
    if (group == groups_.groups().end()) continue;  // a redistribution
    GroupPrice& price = prices[size_t(group - groups_.groups().begin())];
    price.forward_s += seconds[i][0];
    price.backward_s += seconds[i][1] + seconds[i][2];
    if (kept.runs_again[i]) price.again_s += seconds[i][0];
    price.saved_bytes += saved_bytes(fused, i, memory.ops[i], shard, layout, kept);
    price.scratch_bytes = scratch;
  }
  // The parameters of this unit, without those of other units, with the extents of this rank.
  const StageSpec stage{.first_layer = is_layer ? layer_ : 0,
                        .num_layers = is_layer ? 1 : 0,
                        .has_embedding = stated_.unit == "embedding",
                        .has_head = stated_.unit == "head"};
  std::map<std::string, double> elements;
  for (const ParamSpec& param : local_param_table(model_, stage, layout)) {
    elements[param.name] += double(param.shape.num_elements());
  }
  const Graph& stacked = groups_.graph();
  for (size_t g = 0; g < prices.size(); ++g) {
    for (const ParamId param : groups_.groups()[g].params) {
      // Experts of other ranks have no entry; those of this rank stand for all.
      const auto own = elements.find(full_name(stacked, stacked.params[size_t(param)]));
      if (own != elements.end()) prices[g].elements[param] = own->second;
    }
  }
  return prices;
}

}  // namespace trireme
