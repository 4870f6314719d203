#include "planner/smaller_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/predict.h"
#include "schema/batch.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

constexpr HostFacts kHost{.num_cores = 64};

FewerRanks left(int most_ranks, LayoutChange change = LayoutChange::Any) {
  return {.most_ranks = most_ranks, .change = change, .hardware = [](int) {
            return std::optional(two_nodes());
          }};
}

RunConfig job(Reproducible mode, int dp, int tp, int pp) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.run.reproducible = mode;
  config.parallel.dp = dp;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  return config;
}

// The keys that differ, without the batch if it is only said in another way.
std::set<std::string> changed_keys(RunConfig before, RunConfig after) {
  std::set<std::string> keys;
  const auto old_fields = config_fields(before), fields = config_fields(after);
  for (size_t i = 0; i < fields.size(); ++i) {
    if (toml_text(fields[i]) != toml_text(old_fields[i])) keys.insert(fields[i].key());
  }
  return keys;
}

// True if a key may change without changing the numbers of a run in this mode.
bool keeps_numbers(const RunConfig& config, const std::string& key) {
  for (const ConfigField& field : config_fields(config)) {
    if (field.key() != key) continue;
    return field.effect == FieldEffect::Speed || field.effect == FieldEffect::Layout ||
           (field.effect == FieldEffect::Mesh && config.run.reproducible == Reproducible::Mesh);
  }
  return false;
}

TEST(SmallerLayout, KeepsTheBatchAndTheNumbersAndFitsForEveryNumberOfRanks) {
  for (const Reproducible mode : {Reproducible::Layout, Reproducible::Mesh}) {
    for (const auto& [dp, tp, pp] : {std::tuple(4, 1, 1), {2, 2, 1}, {2, 1, 2}, {1, 2, 2}}) {
      const RunConfig config = job(mode, dp, tp, pp);
      for (int most = 1; most <= 4; ++most) {
        SCOPED_TRACE(testing::Message() << name_of(mode) << " dp " << dp << " tp " << tp << " pp "
                                        << pp << " in " << most);
        const auto smaller = smaller_layout(config, kHost, left(most));
        const bool may_lack = mode == Reproducible::Layout && most < tp;
        ASSERT_EQ(smaller.ok(), !may_lack);
        if (may_lack) continue;
        EXPECT_LE(mesh_of(smaller->parallel).size(), most);
        EXPECT_EQ(sequences_of_step(*smaller), sequences_of_step(config));
        EXPECT_TRUE(make_plan(*smaller, kHost).ok());
        for (const std::string& key : changed_keys(config, *smaller)) {
          EXPECT_TRUE(keeps_numbers(config, key)) << key;
        }
      }
    }
  }
}

// The ranks of a job keep parallel.stage_layers, which no other pipeline can have.
TEST(SmallerLayout, KeepsThePipelineOfStatedLayers) {
  RunConfig config = job(Reproducible::Layout, 2, 1, 2);
  config.parallel.stage_layers = fmt::format("1,{}", config.model.layers - 1);
  for (const int most : {2, 3}) {
    const auto smaller = smaller_layout(config, kHost, left(most));
    ASSERT_TRUE(smaller.ok());
    EXPECT_EQ(changed_keys(config, *smaller), std::set<std::string>{"parallel.dp"});
  }
  EXPECT_FALSE(smaller_layout(config, kHost, left(1)).ok());
}

// The greatest dp comes first where it uses all ranks.
TEST(SmallerLayout, ChangesOnlyDpWhereThatUsesAllRanks) {
  const RunConfig config = job(Reproducible::Layout, 4, 1, 1);
  for (const int most : {1, 2}) {
    const auto smaller = smaller_layout(config, kHost, left(most));
    ASSERT_TRUE(smaller.ok());
    EXPECT_EQ(smaller->parallel.dp, most);
    EXPECT_EQ(changed_keys(config, *smaller), std::set<std::string>{"parallel.dp"});
  }
}

TEST(SmallerLayout, UsesIdleRanksIfThatIsFasterThanASmallerDp) {
  const RunConfig config = job(Reproducible::Layout, 4, 1, 1);
  FewerRanks ranks = left(3);
  const auto piped = smaller_layout(config, kHost, ranks);
  ASSERT_TRUE(piped.ok());
  EXPECT_EQ(mesh_of(piped->parallel).size(), 3);
  RunConfig with_dp = config;
  with_dp.parallel.dp = 2;
  EXPECT_LT(predicted_step_s(make_plan(*piped, kHost).value(), two_nodes()),
            predicted_step_s(make_plan(with_dp, kHost).value(), two_nodes()));
  // If the ranks share two cores, a third one makes nothing faster.
  ranks.hardware = [](int num_ranks) {
    Hardware hardware = two_nodes();
    hardware.fp32_flops *= std::min(1.0, 2.0 / num_ranks);
    hardware.bf16_flops *= std::min(1.0, 2.0 / num_ranks);
    hardware.memory_bytes_per_s *= std::min(1.0, 2.0 / num_ranks);
    return std::optional(hardware);
  };
  EXPECT_EQ(smaller_layout(config, kHost, ranks)->parallel.dp, 2);
  ranks.hardware = [](int) { return std::optional<Hardware>(); };
  EXPECT_EQ(smaller_layout(config, kHost, ranks)->parallel.dp, 2);
}

TEST(SmallerLayout, FindsOneWhereNoDpFits) {
  const RunConfig config = job(Reproducible::Layout, 1, 2, 2);
  const auto smaller = smaller_layout(config, kHost, left(3));
  ASSERT_TRUE(smaller.ok());
  EXPECT_EQ(mesh_of(smaller->parallel), (Mesh{.tp = 2}));
  EXPECT_EQ(smaller_layout(job(Reproducible::Mesh, 1, 2, 2), kHost, left(1))->parallel.tp, 1);
  EXPECT_EQ(smaller_layout(job(Reproducible::Fixed, 1, 2, 2), kHost, left(1))->parallel.tp, 1);
}

// A rank holds more of a sharded state if dp is smaller, which may not fit into its memory.
TEST(SmallerLayout, LeavesOutADpThatDoesNotFit) {
  RunConfig config = job(Reproducible::Layout, 4, 1, 1);
  config.parallel.zero = 3;
  RunConfig with_dp = config;
  with_dp.parallel.dp = 2;
  const auto bytes = [](const RunConfig& own) {
    return make_plan(own, kHost).value().largest().memory.arena_bytes;
  };
  ASSERT_LT(bytes(config), bytes(with_dp));
  config.memory.limit_bytes = bytes(with_dp) - 1;
  const auto smaller = smaller_layout(config, kHost, left(2));
  ASSERT_TRUE(smaller.ok()) << smaller.error().message;
  EXPECT_TRUE(make_plan(*smaller, kHost).ok());
  EXPECT_NE(changed_keys(config, *smaller), std::set<std::string>{"parallel.dp"});
}

TEST(SmallerLayout, SaysWhyNoneIsLeft) {
  const RunConfig config = job(Reproducible::Layout, 1, 2, 2);
  EXPECT_NE(smaller_layout(config, kHost, left(1))
                .error()
                .message.find("no layout of at most 1 rank keeps parallel.tp = 2"),
            std::string::npos);
  EXPECT_NE(smaller_layout(config, kHost, left(3, LayoutChange::Dp))
                .error()
                .message.find("keeps all degrees but parallel.dp"),
            std::string::npos);
  EXPECT_NE(smaller_layout(config, kHost, left(3, LayoutChange::None))
                .error()
                .message.find("the layout of 4 ranks may not change, but only 3 ranks can run"),
            std::string::npos);
  EXPECT_EQ(smaller_layout(config, kHost, left(4, LayoutChange::None))->parallel.pp, 2);
}

// A job whose places have their own numbers of ranks starts again with all of them, and says what
// to do if it cannot.
TEST(SmallerLayout, PlacesWithTheirOwnNumbersOfRanksNeedThemAll) {
  RunConfig config = job(Reproducible::Layout, 2, 1, 2);
  config.model.tied_head = false;
  config.parallel.stage_dp = "2,1";
  config.parallel.order = "tp,cp,dp,pp";
  const Result<RunConfig> all = smaller_layout(config, kHost, left(3));
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->parallel.stage_dp, "2,1");
  for (const LayoutChange change : {LayoutChange::Any, LayoutChange::Dp}) {
    const Result<RunConfig> fewer = smaller_layout(config, kHost, left(2, change));
    ASSERT_FALSE(fewer.ok());
    EXPECT_NE(fewer.error().message.find("stage_dp = \"2,1\" needs 3 ranks, but only 2 ranks can"),
              std::string::npos)
        << fewer.error().message;
  }
}

}  // namespace
}  // namespace trireme
