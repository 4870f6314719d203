#include <gtest/gtest.h>

#include "autoparallel/four_ranks_fixture.h"
#include "autoparallel/split_plan.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

// A net with seven kinds of units: more than a stage tries all choices of.
RunConfig image_config() {
  RunConfig config;
  config.model.family = ModelFamily::WideResNet;
  config.model.layers = 8;
  config.model.base_channels = 16;
  config.model.width_factor = 2;
  config.model.image_size = 64;
  config.model.vocab_size = 10;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 16;
  config.batch.micro_sequences = 1;
  config.parallel.dp = 4;
  return config;
}

constexpr double kLittle = 12e6, kMuch = 1e12;

TEST(StagesOfManyKinds, AreNoSlowerThanAnyUniformOneThatFits) {
  int compared = 0, limited = 0;
  for (const double memory : {kMuch, kLittle}) {
    const PlannedRun run = run_with(image_config(), memory);
    StageSearch search(run, 8);
    ASSERT_TRUE(search.has_many_kinds());
    for (const int ranks : {1, 2, 4}) {
      for (const auto& [first, last] : {std::pair{0, 9}, std::pair{0, 4}, std::pair{5, 9}}) {
        const double found_s = search.best_seconds(first, last, ranks, 2);
        const SecondsBounds bounds = search.bounds(first, last, ranks, 2);
        EXPECT_LE(bounds.lower, found_s);
        EXPECT_LE(found_s, bounds.upper * (1.0 + kWaysTolerance));
        for (const StageSearch::Uniform& uniform : search.uniforms(ranks)) {
          const auto stage = search.uniform_stage(uniform, first, last, 2);
          ++(stage && stage->bytes > memory ? limited : compared);
          if (!stage || stage->bytes > memory) continue;
          EXPECT_LE(found_s, stage->seconds * (1.0 + kWaysTolerance))
              << to_string(uniform.mesh) << " " << to_string(uniform.roles, uniform.mesh);
        }
      }
    }
  }
  EXPECT_GT(compared, 0);
  EXPECT_GT(limited, 0);
}

// Stages that no faster plan can have are left out; this changes the answer by no more than the
// tolerances of the search.
TEST(StagesOfManyKinds, LeavingOutWhatIsTooSlowKeepsTheBestPlan) {
  for (const double memory : {kMuch, kLittle}) {
    const PlannedRun run = run_with(image_config(), memory);
    const std::vector<int> operators = operators_of(run);
    for (const int64_t sequences : {int64_t{2}, int64_t{8}}) {
      ClusterStages all(run, sequences);
      const auto found = split_plan(run, all, by_op(all), operators, false);
      ASSERT_TRUE(found);
      for (const double slack : {1.0001, 1.05, 2.0}) {
        ClusterStages fewer(run, sequences);
        fewer.leave_out_above(slack * found->step_s, mesh_sizes(run));
        const auto again = split_plan(run, fewer, by_op(fewer), operators, false);
        ASSERT_TRUE(again) << slack;
        const double tolerance = (1.0 + kWaysTolerance) * (1.0 + kSlowestStageGap);
        EXPECT_LE(again->formula_s, found->formula_s * tolerance);
        EXPECT_LE(found->formula_s, again->formula_s * tolerance);
      }
      // Without its message and its sums of gradients no plan is half as long.
      ClusterStages none(run, sequences);
      none.leave_out_above(0.1 * found->step_s, mesh_sizes(run));
      EXPECT_FALSE(split_plan(run, none, by_op(none), operators, false));
    }
  }
}

TEST(StagesOfManyKinds, ThePlanIsNoSlowerThanTheBestUniformOne) {
  for (const double memory : {kMuch, kLittle}) {
    const PlanSearch found = search_plan(run_with(image_config(), memory)).value();
    ASSERT_FALSE(found.uniforms.empty());
    EXPECT_LE(found.best.step_s, found.uniforms.front().step_s);
    for (const StagePlan& stage : found.best.stages) EXPECT_LE(stage.bytes, memory);
  }
}

// The ranks of tp share out the images of convolutions and the units of dense layers, as a run does
// (docs/images.md). The search and `trireme plan` price this uniform layout alike.
TEST(PlansOfImages, HybridParallelismIsAUniformLayout) {
  RunConfig config;
  config.model.family = ModelFamily::AlexNet;
  config.model.layers = layers_of_family(ModelFamily::AlexNet, 0);
  config.model.image_size = 224;
  config.model.vocab_size = 1000;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 64;
  config.batch.micro_sequences = 1;
  config.parallel.dp = 4;
  const PlannedRun run = run_with(config, 1e12);
  ClusterStages search(run, 64);
  int compiled = 0;
  for (const StageSearch::Uniform& uniform : search.uniforms(4)) {
    const bool is_hybrid = uniform.roles[1] == Role::SequenceTensor;
    if (uniform.mesh.dims[0].degree() > 1 || !is_hybrid) continue;
    auto stage = search.uniform_stage(0, uniform, 0, run.num_units() - 1, 1);
    ASSERT_TRUE(stage);
    FoundPlan plan{.sequences = 64, .num_microbatches = 1};
    plan.stages = {std::move(*stage)};
    plan.uniform = uniform;
    simulate_plan(run, plan);
    const auto found = compile_found(plan, config, host_of(small_cluster()), small_cluster());
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->config.parallel.tp, 4);
    EXPECT_FALSE(found->config.parallel.sequence);
    EXPECT_NEAR(plan.step_s, found->predicted_s, 0.2 * found->predicted_s);
    ++compiled;
  }
  EXPECT_GT(compiled, 0);
}

}  // namespace
}  // namespace trireme
