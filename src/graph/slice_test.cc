#include "graph/slice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/all_passes.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "graph/place.h"
#include "graph/stack.h"

namespace trireme {
namespace {

constexpr int kSlices = 4;

ModelSpec sliced_model(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.layers = 1;
  config.d_model = 64;
  config.heads = 8;
  config.vocab_size = 131;
  config.seq_len = 32;
  return *resolve_model(config, 0);
}

void for_every_unit(
    const std::function<void(const Graph& stated, const StageShape& layout)>& visit) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    const ModelSpec model = sliced_model(family);
    for (const int tp : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("family {} tp {}", int(family), tp));
      const StageShape layout{.tp = tp, .tp_rank = tp - 1};
      for_each_unit(
          model, whole_model(model), [](Graph unit) { return unit; },
          [&](const Graph& unit, bool) { visit(unit, layout); });
    }
  }
}

TEST(Slice, ALayoutWithoutSlicesKeepsItsGraph) {
  for_every_unit([](const Graph& stated, const StageShape& layout) {
    const Graph placed = place(stack(stated), layout);
    EXPECT_EQ(to_string(slice(placed, layout)), to_string(placed));
  });
}

// The slices of all ranks are as many whatever tp is, and cutting again changes nothing.
TEST(Slice, EverySumOverWhatTpSharesHasAsManySlicesOnAllMeshes) {
  for_every_unit([](const Graph& stated, StageShape layout) {
    layout.slices = kSlices;
    const Graph sliced = placed_graph(stated, layout);
    EXPECT_EQ(to_string(slice(sliced, layout)), to_string(sliced));
    for (const Op& op : sliced.ops) {
      for (const int count : {op.slices.forward, op.slices.backward}) {
        EXPECT_TRUE(count == 0 || count * layout.tp == kSlices) << op.name;
      }
    }
  });
}

// A product whose output the ranks sum is cut in F, and one whose input's gradient they sum in B:
// by the table of strategies, not by the placements of parameters, which the pass reads.
TEST(Slice, WhatRanksSumIsWhatIsCut) {
  for_every_unit([](const Graph& stated, StageShape layout) {
    layout.slices = kSlices;
    const Graph sliced = placed_graph(stated, layout);
    for (const Op& op : sliced.ops) {
      if (op.kind != OpKind::Linear && op.kind != OpKind::SoftmaxParts) {
        EXPECT_EQ(op.slices, OpSlices{}) << op.name;
        continue;
      }
      const Strategy over_tp = strategies_of(sliced, op, MeshAxis::Tp, layout).front();
      const bool sums_outputs = over_tp.outputs.front() == Placement::partial();
      EXPECT_EQ(op.slices.forward > 0, sums_outputs) << op.name;
      EXPECT_EQ(op.slices.backward > 0, !sums_outputs) << op.name;
    }
  });
}

// The pass fuse takes the slices of the vocabulary projection over to the loss that it joins.
TEST(Slice, FusedGraphsKeepTheirSlices) {
  for_every_unit([](const Graph& stated, StageShape layout) {
    layout.slices = kSlices;
    const auto cut = [](const Graph& graph) {
      return std::count_if(graph.ops.begin(), graph.ops.end(),
                           [](const Op& op) { return op.slices != OpSlices{}; });
    };
    EXPECT_EQ(cut(fused_graph(stated, layout)), cut(placed_graph(stated, layout)));
  });
}

}  // namespace
}  // namespace trireme
