#include "graph/keep.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/backward_reads.h"
#include "graph/layer_keep.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

ModelSpec layer_model(ModelFamily family, bool parallel_block, double layer_scale) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 32;
  config.heads = 4;
  config.kv_heads = family == ModelFamily::Gpt2 ? 4 : 2;
  config.d_ff = 64;
  config.vocab_size = 61;
  config.seq_len = 8;
  config.dropout = layer_scale > 0.0 ? 0.1 : 0.0;
  config.parallel_block = parallel_block;
  config.layer_scale = layer_scale;
  if (family == ModelFamily::Moe) {
    config.experts = 4;
    config.shared_experts = 1;
  }
  return *resolve_model(config, 0);
}

// Layers of every family, as they lie on ranks that share them in several ways.
template <typename Visit>
void for_each_layer(Visit&& visit) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const bool parallel_block : {false, true}) {
      for (const double layer_scale : {0.0, 0.5}) {
        const ModelSpec model = layer_model(family, parallel_block, layer_scale);
        for (const int tp : {1, 2}) {
          for (const bool sequence : {false, true}) {
            for (const int others : {1, 2}) {
              visit(model, StageShape{.tp = tp,
                                      .sequence_parallel = sequence,
                                      .cp = others,
                                      .ep = model.has_experts() ? others : 1});
            }
          }
        }
      }
    }
  }
}

std::vector<std::string> names_of_choices(const Graph& fused) {
  std::vector<std::string> names;
  for (const KeepChoice& choice : keep_choices(fused)) {
    for (const ValueId id : choice.values) names.push_back(fused.values[size_t(id)].name);
    names.emplace_back(";");
  }
  return names;
}

// What an op reads in its forward pass; a redistribution hands on what it gathers.
std::vector<ValueId> reads_of(const Op& op) {
  std::vector<ValueId> all = op.inputs;
  for (const ValueId id : {op.addend, op.early_residual, op.late_residual}) {
    if (id >= 0) all.push_back(id);
  }
  return all;
}

TEST(Keep, TheChoicesOfALayerDoNotDependOnTheLayout) {
  std::vector<std::string> expected;
  for_each_layer([&](const ModelSpec& model, const StageShape& shape) {
    const std::vector<std::string> names = names_of_choices(layer_keep(model, shape, 0).fused);
    const bool is_first = shape.tp == 1 && !shape.sequence_parallel && shape.cp == 1;
    if (is_first) expected = names;
    EXPECT_EQ(names, expected);
  });
}

// None, selective and full are sets.
TEST(Keep, EveryPolicyIsASet) {
  for_each_layer([&](const ModelSpec& model, const StageShape& shape) {
    const Graph fused = layer_keep(model, shape, 0).fused;
    const std::vector<KeepChoice> choices = keep_choices(fused);
    uint64_t cheap = 0;
    for (size_t i = 0; i < choices.size(); ++i) {
      const OpKind kind = fused.ops[size_t(choices[i].op)].kind;
      if (kind == OpKind::Norm || kind == OpKind::Activation) cheap |= uint64_t{1} << i;
    }
    const std::pair<Recompute, uint64_t> sets[] = {
        {Recompute::None, 0}, {Recompute::Selective, cheap}, {Recompute::Full, all_again(fused)}};
    for (const auto& [policy, again] : sets) {
      const Keep by_policy = keep(fused, {policy}), by_set = keep(fused, {Recompute::Fit, again});
      EXPECT_EQ(by_policy.fates, by_set.fates);
      EXPECT_EQ(by_policy.runs_again, by_set.runs_again);
    }
  });
}

// For every set: what B, W and the ops that run again read is there, and no op runs in vain.
TEST(Keep, EverySetHasWhatItNeedsAndNoMore) {
  for_each_layer([&](const ModelSpec& model, const StageShape& shape) {
    const Graph fused = layer_keep(model, shape, 0).fused;
    const std::vector<KeepChoice> choices = keep_choices(fused);
    const auto num_ops = fused.ops.size();
    for (uint64_t again = 0; again <= all_again(fused); again = 2 * again + again % 3 + 1) {
      const Keep kept = keep(fused, {Recompute::Fit, again});
      const auto fate = [&](ValueId id) { return kept.fates[size_t(id)]; };
      std::vector<bool> is_wanted(fused.values.size(), false);
      for (size_t i = 0; i < choices.size(); ++i) {
        const bool is_again = (again >> i & 1) != 0;
        for (const ValueId id : choices[i].values) {
          EXPECT_EQ(fate(id), is_again ? Fate::Again : Fate::Stored);
          is_wanted[size_t(id)] = is_again;
        }
      }
      for (size_t i = num_ops; i-- > 0;) {
        const Op& op = fused.ops[i];
        for (const ValueId id : read_by_backward(fused, op)) {
          const Op* made_by = producer_of(fused, id);
          const bool is_gathered = made_by != nullptr && gathers(*made_by);
          EXPECT_NE(fate(is_gathered ? made_by->inputs.front() : id), Fate::Dropped);
        }
        EXPECT_EQ(kept.runs_again[i],
                  std::any_of(op.outputs.begin(), op.outputs.end(),
                              [&](ValueId id) { return fate(id) == Fate::Again; }));
        EXPECT_EQ(kept.keeps_statistics[i], !kept.runs_again[i]);
        if (!kept.runs_again[i]) continue;
        EXPECT_TRUE(std::any_of(op.outputs.begin(), op.outputs.end(),
                                [&](ValueId id) { return is_wanted[size_t(id)]; }))
            << op.name << " runs in vain";
        for (const ValueId id : reads_of(op)) {
          EXPECT_NE(fate(id), Fate::Dropped);
          if (fate(id) == Fate::Again) is_wanted[size_t(id)] = true;
        }
      }
    }
  });
}

TEST(Keep, ALargerSetRunsNoOpLess) {
  const ModelSpec model = layer_model(ModelFamily::Moe, false, 0.5);
  const Graph fused = layer_keep(model, {}, 0).fused;
  const uint64_t all = all_again(fused);
  for (uint64_t again = 0; again <= all; again += 7) {
    const Keep smaller = keep(fused, {Recompute::Fit, again});
    for (uint64_t bit = 1; bit <= all; bit *= 2) {
      const Keep larger = keep(fused, {Recompute::Fit, again | bit});
      for (size_t op = 0; op < fused.ops.size(); ++op) {
        EXPECT_LE(smaller.runs_again[op], larger.runs_again[op]);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
