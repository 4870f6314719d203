#include "planner/layout_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig ruled_run(ModelFamily family, int64_t layers, int64_t sequences) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = layers;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.d_ff = 128;
  config.model.experts = 4;
  config.model.vocab_size = 96;
  config.model.seq_len = 32;
  config.batch.global_sequences = sequences;
  config.batch.micro_sequences = 1;
  return config;
}

Hardware cluster_of(int64_t ranks_per_node, double between_bytes_per_s) {
  Hardware hardware;
  hardware.fp32_flops = 1e11;
  hardware.bf16_flops = 2e11;
  hardware.memory_bytes_per_s = 1e11;
  hardware.set_nodes(ranks_per_node, {1e-6, 5e9}, {3e-6, between_bytes_per_s});
  return hardware;
}

// The least bytes with which a rank of one of the rules' layouts could do, found by halving.
int64_t least_limit(RunConfig config, const Hardware& hardware, int num_ranks) {
  int64_t refused = 0, fits = int64_t(16) << 20;
  while (fits - refused > fits / 10) {
    config.memory.limit_bytes = (fits + refused) / 2;
    (layout_by_rules(config, {}, hardware, num_ranks).ok() ? fits : refused) =
        config.memory.limit_bytes;
  }
  return fits;
}

// What the rules choose is a valid plan that fits, predicted as every plan is, and the search,
// which may choose it, too, is never slower.
void expect_ruled(const RunConfig& config, const Hardware& hardware, int num_ranks) {
  const Result<RuledLayout> ruled = layout_by_rules(config, {}, hardware, num_ranks);
  ASSERT_TRUE(ruled.ok()) << ruled.error().message;
  const LayoutChoice& layout = ruled->priced.layout;
  EXPECT_EQ(layout.mesh.size(), num_ranks);
  EXPECT_LE(layout.mesh.tp, hardware.nodes().size_at(0));
  const Result<RunPlan> plan = make_plan(with_layout(config, layout), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_DOUBLE_EQ(predicted_step_s(*plan, hardware), ruled->priced.time.step);
  const Result<LayoutSearch> search = search_layout(config, {}, hardware, num_ranks, 1);
  ASSERT_TRUE(search.ok()) << search.error().message;
  EXPECT_LE(search->best.front().time.step, ruled->priced.time.step * (1.0 + 1e-12))
      << describe(layout);
  EXPECT_GE(ruled->steps.size(), 3u);
  for (const RuleStep& step : ruled->steps) EXPECT_FALSE(step.reason.empty()) << step.rule;
}

// Five models on two clusters, each with plenty of memory, with about the least, and between.
TEST(LayoutRules, AreValidAndNeverBetterThanTheSearchOnThirtyPairs) {
  int pairs = 0;
  for (const auto& [family, layers] : {std::pair{ModelFamily::Gpt2, 4},
                                       {ModelFamily::Gpt2, 3},
                                       {ModelFamily::Llama, 4},
                                       {ModelFamily::Llama, 6},
                                       {ModelFamily::Moe, 4}}) {
    for (const auto& [ranks_per_node, between] : {std::pair{2, 1e9}, {2, 1e6}}) {
      const Hardware hardware = cluster_of(ranks_per_node, between);
      RunConfig config = ruled_run(family, layers, 4);
      const int num_ranks = 4;
      const int64_t least = least_limit(config, hardware, num_ranks);
      for (const double factor : {1.0, 1.3, 100.0}) {
        config.memory.limit_bytes = int64_t(factor * double(least));
        SCOPED_TRACE(testing::Message() << name_of(family) << " " << layers << " with " << between
                                        << " B/s in " << factor);
        expect_ruled(config, hardware, num_ranks);
        ++pairs;
      }
    }
  }
  EXPECT_EQ(pairs, 30);
}

// With memory for everything, the rules need neither tp nor pp.
TEST(LayoutRules, WithEnoughMemoryDataParallelismIsAll) {
  const RuledLayout ruled =
      layout_by_rules(ruled_run(ModelFamily::Gpt2, 4, 8), {}, cluster_of(4, 1e9), 8).value();
  EXPECT_EQ(ruled.priced.layout.mesh, (Mesh{.dp = 8}));
  EXPECT_EQ(ruled.priced.layout.zero, 1);
}

// Wherever tp is chosen and sequence parallelism is valid, the rules take it: it never needs more
// memory, so no larger tp and no pipeline than without it.
TEST(LayoutRules, TensorParallelismBringsSequenceParallelism) {
  const Hardware hardware = cluster_of(4, 1e9);
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    RunConfig config = ruled_run(family, 4, 4);
    config.memory.limit_bytes = least_limit(config, hardware, 4);
    for (int i = 0; i < 6; ++i, config.memory.limit_bytes += config.memory.limit_bytes / 8) {
      const Result<RuledLayout> ruled = layout_by_rules(config, {}, hardware, 4);
      ASSERT_TRUE(ruled.ok()) << ruled.error().message;
      const LayoutChoice& layout = ruled->priced.layout;
      EXPECT_EQ(layout.exchange.sequence, layout.mesh.tp > 1) << describe(layout);
    }
  }
}

// C / W is FLOPs of a device over its bandwidth, and out of a node that of all its ranks together.
TEST(LayoutRules, TheRegimeIsPeakOverBandwidth) {
  RunConfig config = ruled_run(ModelFamily::Gpt2, 4, 8);
  config.precision.compute = ComputeChoice::Bf16;
  Hardware hardware = cluster_of(8, 50e9);
  hardware.bf16_flops = 990e12;
  hardware.tiers[0].link.bytes_per_s = 450e9;
  const RunPlan started = start_plan(config, {}).value();
  const TokenRegime regime = token_regime(started, hardware, 512);
  EXPECT_NEAR(regime.inside_node, 2200.0, 1e-9);
  EXPECT_NEAR(regime.across_nodes, 2475.0, 1e-9);
  EXPECT_DOUBLE_EQ(regime.tokens_per_device, 8.0 * 32.0 / 512.0);
  EXPECT_FALSE(regime.is_compute_bound());
}

}  // namespace
}  // namespace trireme
