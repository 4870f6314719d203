#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "layout_case.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

constexpr int64_t kMicroSequences = 8, kSeqLen = 32, kWidth = 32;

// The tensors are larger than the eager limit, so every byte is moved the least number of times.
RunConfig traffic_config(const Case& c, int64_t layers) {
  RunConfig config = config_of(c);
  config.model.layers = layers;
  config.model.d_model = kWidth;
  config.model.seq_len = kSeqLen;
  config.batch.micro_sequences = kMicroSequences;
  config.batch.global_sequences = 2 * kMicroSequences * c.dp;
  return config;
}

RunPlan traffic_plan(const RunConfig& config) {
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *plan;
}

int64_t bytes_along(const AxisBytes& traffic, std::string_view axis) {
  for (const auto& [name, bytes] : traffic) {
    if (name == axis) return bytes;
  }
  return -1;
}

// Returns the bytes that a rank sends along an axis for F and BW of one micro-batch.
int64_t microbatch_bytes(const RunPlan& plan, const RankPlan& rank, std::string_view axis) {
  RankPlan once = rank;
  once.program.clear();
  for (const ActionKind kind : {ActionKind::F, ActionKind::BW}) {
    once.program.push_back(*std::find_if(rank.program.begin(), rank.program.end(),
                                         [&](const Action& a) { return a.kind == kind; }));
  }
  return bytes_along(predict_traffic(plan, once, plan.num_ranks()), axis);
}

// Checks that the plan says `bytes` for every rank and layer, and that the ranks send what the plan
// says.
void expect_layer_bytes(
    const Case& c, std::string_view axis, int64_t bytes,
    const std::function<void(RunConfig&)>& change = [](RunConfig&) {}) {
  SCOPED_TRACE(c.name());
  RunConfig one = traffic_config(c, 1), two = traffic_config(c, 2);
  change(one);
  change(two);
  const RunPlan one_layer = traffic_plan(one), plan = traffic_plan(two);
  for (int r = 0; r < plan.num_ranks(); ++r) {
    EXPECT_EQ(microbatch_bytes(plan, rank_plan(plan, r), axis) -
                  microbatch_bytes(one_layer, rank_plan(one_layer, r), axis),
              bytes);
  }
  const LayoutRun run = run_layout(plan, {.end = 2, .evaluates = false});
  EXPECT_EQ(run.differences, "");
}

int64_t element_bytes(const Case& c) { return c.compute == ComputeChoice::Bf16 ? 2 : 4; }

// Formula: 8 b s h (t - 1) / t elements. With sequence parallelism the inputs of two blocks are
// gathered again for their weight gradients. Transfers in pieces beside the matmuls send the same.
TEST(ParityOfTraffic, OfTensorParallelLayers) {
  const int64_t bsh = kMicroSequences * kSeqLen * kWidth;
  for (const char* family : {"gpt2", "llama"}) {
    for (const int tp : {2, 4}) {
      for (const bool sequence : {false, true}) {
        for (const bool overlap : {false, true}) {
          const Case c{.family = family,
                       .compute = tp == 2 ? ComputeChoice::Fp32 : ComputeChoice::Bf16,
                       .tp = tp,
                       .sequence = sequence,
                       .tp_overlap = overlap,
                       .is_wide = true};
          expect_layer_bytes(c, "tp", (sequence ? 10 : 8) * bsh * (tp - 1) / tp * element_bytes(c));
        }
      }
    }
  }
}

// Keys and values of s/c tokens pass c - 1 ranks, forward and backward. Their fp32 gradients travel
// with them and return.
TEST(ParityOfTraffic, OfRingAttention) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const int cp : {2, 4}) {
      const Case c{.family = family,
                   .compute = cp == 2 ? ComputeChoice::Fp32 : ComputeChoice::Bf16,
                   .cp = cp,
                   .is_wide = true};
      const int64_t kv_width = family == std::string("gpt2") ? kWidth : kWidth / 2;
      const int64_t local = kMicroSequences * kSeqLen / cp * 2 * kv_width;
      expect_layer_bytes(c, "cp", 2 * local * (cp - 1) * element_bytes(c) + local * cp * 4);
    }
  }
}

// Queries, keys and values go to the ranks of their heads and the output returns: b s/c (c - 1)/c
// of each width. Backward sends the output, its gradient and three gradients.
TEST(ParityOfTraffic, OfAttentionWithHeadsExchanged) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const int cp : {2, 4}) {
      const Case c{
          .family = family, .cp = cp, .context = ContextExchange::AllToAll, .is_wide = true};
      const int64_t q = kWidth, qkv = family == std::string("gpt2") ? 3 * kWidth : 2 * kWidth;
      const int64_t tokens = kMicroSequences * kSeqLen / cp;
      expect_layer_bytes(c, "cp", tokens * (cp - 1) / cp * (3 * qkv + 3 * q) * 4);
    }
  }
}

// Rows go to the experts and back, forward and backward, b s k h (e - 1)/e each, if every token
// visits every expert or a capacity fixes the number of visits. A number per row goes once there
// and once back, and the counts of rows are sent too.
TEST(ParityOfTraffic, OfExperts) {
  for (const double capacity_factor : {0.0, 0.5}) {
    for (const int ep : {2, 4}) {
      const Case c{.dp = ep, .family = "moe_all", .ep = ep, .is_wide = true};
      constexpr int64_t kExperts = 4;
      const int64_t tokens = kMicroSequences * kSeqLen;
      const int64_t visits = capacity_factor > 0.0 ? tokens * kExperts / 2 : tokens * kExperts;
      const int64_t away = visits * (ep - 1) / ep;
      expect_layer_bytes(
          c, "ep", away * (4 * kWidth + 2) * 4 + kExperts * (ep - 1) / ep * 4,
          [&](RunConfig& config) { config.model.capacity_factor = capacity_factor; });
    }
  }
}

// A tied table of V h elements at places with degrees of their own.
Case tied_case(const std::string& stage_tp, const std::string& stage_dp, int zero) {
  return {.dp = stage_dp == "1,1" ? 1 : 2,
          .pp = 2,
          .zero = zero,
          .tp = stage_tp == "1,1" ? 1 : 2,
          .order = "tp,cp,dp,pp",
          .stage_tp = stage_tp,
          .stage_dp = stage_dp};
}

// Every element of the gradient of a tied table crosses once in each direction between the two
// places. Copies of a part then gather it: each of k sends what it has summed to k - 1 others.
TEST(ParityOfTraffic, OfATiedTable) {
  constexpr int64_t kVocabulary = 1024, kTable = kVocabulary * kWidth * 4;
  struct Asked {
    Case layout;
    std::vector<int64_t> pp, dp;  // [rank] bytes
  };
  const int64_t half = kTable / 2, quarter = kTable / 4;
  const std::vector<Asked> all = {
      {{.pp = 2}, {kTable, kTable}, {0, 0}},
      {{.dp = 2, .pp = 2, .order = "tp,cp,dp,pp"}, {kTable, kTable, kTable, kTable}, {0, 0, 0, 0}},
      {tied_case("2,1", "1,1", 0), {half, half, kTable}, {0, 0, 0}},
      {tied_case("1,2", "1,1", 1), {kTable, half, half}, {0, 0, 0}},
      {tied_case("1,1", "2,1", 0), {half, half, kTable}, {half, half, 0}},
      {tied_case("1,1", "1,2", 2), {kTable, half, half}, {0, 0, 0}},
      {tied_case("2,1", "2,1", 0),
       {quarter, quarter, quarter, quarter, kTable},
       {quarter, quarter, quarter, quarter, 0}},
      {tied_case("2,1", "1,2", 1), {half, half, half, half}, {0, 0, 0, 0}}};
  for (const Asked& asked : all) {
    RunConfig config = traffic_config(asked.layout, 2);
    config.model.vocab_size = kVocabulary;
    SCOPED_TRACE(asked.layout.name());
    const RunPlan plan = traffic_plan(config);
    ASSERT_EQ(size_t(plan.num_ranks()), asked.pp.size());
    for (int r = 0; r < plan.num_ranks(); ++r) {
      RankPlan join = rank_plan(plan, r);
      std::erase_if(join.program,
                    [](const Action& a) { return a.kind != ActionKind::JoinTiedTable; });
      ASSERT_EQ(join.program.size(), 1u);
      const AxisBytes traffic = predict_traffic(plan, join, plan.num_ranks());
      EXPECT_EQ(bytes_along(traffic, "pp"), asked.pp[size_t(r)]) << r;
      EXPECT_EQ(bytes_along(traffic, "dp"), asked.dp[size_t(r)]) << r;
    }
    for (const int ranks_per_node : {0, 1}) {
      const LayoutRun run =
          run_layout(plan, {.end = 2, .evaluates = false, .nodes = ranks_per_node});
      EXPECT_EQ(run.differences, "");
    }
  }
}

// Ranks without shared memory send messages only; with two ranks these have the same number of
// bytes.
TEST(ParityOfTraffic, OfMessagesIsThePlannedToo) {
  for (const Case& layout :
       {Case{.tp = 2}, Case{.tp = 2, .sequence = true}, Case{.tp = 2, .tp_overlap = true},
        Case{.cp = 2}, Case{.cp = 2, .context = ContextExchange::AllToAll},
        Case{.dp = 2, .zero = 2}, Case{.pp = 2}, Case{.dp = 2, .family = "moe_all", .ep = 2},
        tied_case("2,1", "1,1", 0), tied_case("1,1", "1,2", 0), tied_case("2,1", "1,2", 1)}) {
    Case c = layout;
    c.is_wide = true;
    SCOPED_TRACE(c.name());
    const LayoutRun run =
        run_layout(traffic_plan(traffic_config(c, 2)), {.end = 2, .evaluates = false, .nodes = 1});
    EXPECT_EQ(run.differences, "");
  }
}

// Between the nodes of a cluster file, of which the second has fast links inside its nodes and the
// third a long latency.
Hardware cluster_of(int64_t ranks_per_node, LinkSpec inside, LinkSpec between) {
  Hardware hardware;
  hardware.fp32_flops = hardware.bf16_flops = hardware.fp16_flops = 1e12;
  hardware.memory_bytes_per_s = 1e11;
  hardware.reduce_bytes_per_s = 1e11;
  hardware.set_nodes(ranks_per_node, inside, between);
  return hardware;
}

// The runtime chooses the algorithms that the plan names: with the costs of the cluster file, on
// one to four nodes, which may have several sizes.
TEST(ParityOfTraffic, OnNodesIsThePlannedForTheCostsOfTheirLinks) {
  const LinkSpec fast{1e-7, 1e11}, slow{1e-5, 1e8}, late{1e-2, 1e11};
  for (const Case& layout :
       {Case{.dp = 4}, Case{.dp = 4, .zero = 1}, Case{.dp = 4, .zero = 3}, Case{.dp = 2, .tp = 2},
        Case{.dp = 2, .pp = 2, .zero = 2}, Case{.tp = 2, .cp = 2}, Case{.tp = 4, .sequence = true},
        Case{.dp = 4, .zero = 2, .hsdp_shard = 2},
        Case{.dp = 2, .family = "moe_all", .cp = 2, .ep = 4},
        Case{.dp = 2, .pp = 2, .zero = 2, .order = "tp,cp,dp,pp"},
        Case{.dp = 2, .tp = 2, .order = "dp,pp,cp,tp"},
        Case{.dp = 2, .family = "moe_all", .cp = 2, .ep = 4, .order = "dp,cp,tp,pp"}}) {
    Case c = layout;
    c.is_wide = true;
    SCOPED_TRACE(c.name());
    for (const int ranks_per_node : {1, 2, 3, 4}) {
      for (const auto& [inside, between] : {std::pair{fast, slow}, {slow, slow}, {fast, late}}) {
        const Hardware cluster = cluster_of(ranks_per_node, inside, between);
        const Result<RunPlan> plan = make_plan(traffic_config(c, 2), {.hardware = cluster});
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        const LayoutRun run =
            run_layout(*plan, {.end = 2, .evaluates = false, .nodes = ranks_per_node});
        EXPECT_EQ(run.differences, "") << ranks_per_node << " ranks on a node";
      }
    }
    // Of four ranks, those behind some share nodes of another size.
    for (const auto& [first, other_rank, other] :
         {std::tuple{3, 3, 1}, {1, 1, 3}, {1, 2, 2}, {2, 2, 1}}) {
      Hardware cluster = cluster_of(first, fast, slow);
      cluster.others.push_back(
          {.label = "other", .first_rank = other_rank, .ranks_per_node = other, .device = cluster});
      const Result<RunPlan> plan = make_plan(traffic_config(c, 2), {.hardware = cluster});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      const LayoutRun run =
          run_layout(*plan, {.end = 2, .evaluates = false, .nodes = cluster.nodes()});
      EXPECT_EQ(run.differences, "") << first << " ranks on a node, then " << other;
    }
  }
}

}  // namespace
}  // namespace trireme
