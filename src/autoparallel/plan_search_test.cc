#include "autoparallel/plan_search.h"

#include <gtest/gtest.h>

#include "autoparallel/four_ranks_fixture.h"
#include "autoparallel/split_plan.h"
#include "autoparallel/stage_degrees.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

TEST(StageSearch, TheBestStageIsNoSlowerThanAnyUniformOneThatFits) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Moe}) {
    for (const double memory : {1e12, 60e6}) {
      const PlannedRun run = run_with(small_config(family), memory);
      StageSearch search(run, 4);
      int compared = 0;
      for (const int ranks : {1, 2, 4}) {
        for (const StageSearch::Uniform& uniform : search.uniforms(ranks)) {
          const auto stage = search.uniform_stage(uniform, 0, 3, 2);
          if (!stage || stage->bytes > memory) continue;
          ++compared;
          EXPECT_LE(search.best_seconds(0, 3, ranks, 2), stage->seconds * (1.0 + 1e-12))
              << to_string(uniform.mesh) << " " << to_string(uniform.roles, uniform.mesh);
        }
      }
      EXPECT_GT(compared, 0);
    }
  }
}

TEST(PlannedRun, RefusesRowsOfImages) {
  RunConfig config;
  config.model.family = ModelFamily::ConvNet;
  config.model.layers = 2;
  config.model.image_size = 16;
  config.model.vocab_size = 10;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 8;
  config.parallel.dp = 4;
  config.parallel.layers = {{"conv*", LayerStrategy::Spatial}};
  const Hardware hardware = small_cluster();
  const Result<PlannedRun> run = planned_run(config, host_of(hardware), hardware);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message,
            "the search of plans by op does not share out rows of images; leave out the strategy "
            "\"spatial\" of parallel.layers, or use --search without a value");
  config.parallel.layers.clear();
  EXPECT_TRUE(planned_run(config, host_of(hardware), hardware).ok());
}

// Stages of a net of images send the images between two blocks, which are wider than what its head
// reads. The prices of compiled plans take the widest ones, too.
TEST(SplitPlan, MessagesOfImagesAreAsWideAsTheWidestBorder) {
  RunConfig config;
  config.model.family = ModelFamily::ConvNet;
  config.model.layers = 3;
  config.model.image_size = 32;
  config.model.vocab_size = 10;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 8;
  config.parallel.dp = 4;
  const PlannedRun run = planned_run(config, host_of(small_cluster()), small_cluster()).value();
  EXPECT_GT(largest_border(run.model), run.model.d_model);
  const int64_t image_bytes = largest_border(run.model) * size_of(run.base.compute);
  EXPECT_EQ(message_bytes(run, 4), double(4 * image_bytes));
}

TEST(StageSearch, LessMemoryAndMoreInFlightNeverMakeAStageFaster) {
  const RunConfig config = small_config(ModelFamily::Gpt2);
  double before = 0.0;
  for (const double memory : {1e9, 80e6, 50e6, 40e6, 30e6}) {
    const PlannedRun run = run_with(config, memory);
    StageSearch search(run, 4);
    double fewer = 0.0;
    for (const int in_flight : {1, 2, 4}) {
      const double seconds = search.best_seconds(0, 4, 4, in_flight);
      EXPECT_GE(seconds, fewer);
      fewer = seconds;
    }
    EXPECT_GE(search.best_seconds(0, 4, 4, 1), before);
    before = search.best_seconds(0, 4, 4, 1);
    const auto stage = search.best(0, 4, 4, 1);
    EXPECT_TRUE(!stage || stage->bytes <= memory);
  }
}

// The search and `trireme plan` give a uniform plan the same price.
TEST(PlanSearch, PricesOfUniformPlansAreThoseOfTheirCompiledPlans) {
  const Hardware hardware = small_cluster();
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Moe}) {
    const RunConfig config = small_config(family);
    const PlanSearch found = search_plan(run_with(config, 4e9)).value();
    ASSERT_FALSE(found.uniforms.empty());
    int compiled = 0;
    for (const FoundPlan& uniform : found.uniforms) {
      const RunConfig runnable = runnable_config(uniform, config, hardware).value();
      const Result<RunPlan> plan = make_plan(runnable, host_of(hardware));
      if (!plan.ok()) continue;
      ++compiled;
      const double predicted_s = predicted_step_s(*plan, hardware);
      EXPECT_NEAR(uniform.step_s, predicted_s, 0.2 * predicted_s)
          << plan->mesh.tp << " tp, pp " << plan->mesh.pp;
    }
    EXPECT_GT(compiled, 3);
    EXPECT_LE(found.best.step_s, found.uniforms.front().step_s);
  }
}

TEST(PlanSearch, APlanOfMoreFreedomIsRefusedWithAReason) {
  const RunConfig config = small_config(ModelFamily::Gpt2);
  PlanSearch found = search_plan(run_with(config, 4e9)).value();
  FoundPlan& plan = found.best;
  plan.uniform.reset();
  StagePlan& stage = plan.stages.front();
  stage.mesh.dims[1].span.count = 2;
  UnitWay& way = stage.units.front().way;
  way.roles.front()[1] = Role::Tensor;
  if (!way.ops.empty()) way.ops.front().alike = {way.roles.front()};
  const Result<RunConfig> refused = runnable_config(plan, config, small_cluster());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("cannot run yet: stage"), std::string::npos)
      << refused.error().message;
}

StagePlan data_parallel_stage(int first_unit, int num_units, int ranks) {
  StagePlan stage{.first_unit = first_unit, .num_units = num_units, .num_ranks = ranks};
  stage.mesh.dims[0].span.count = ranks;
  stage.mesh.sequences = 4;
  UnitWay way;
  way.roles = {{Role::Data, Role::Whole}, {Role::Data, Role::Data}};
  stage.units = {{.first_unit = first_unit, .count = num_units, .way = way}};
  return stage;
}

// Stages that share out whole sequences run with ranks and layers of their own.
TEST(PlanSearch, APlanOfDataParallelStagesIsAConfigurationThatCompiles) {
  RunConfig config = small_config(ModelFamily::Llama);
  config.model.tied_head = false;
  const int units = int(config.model.layers) + 2;
  FoundPlan plan{.sequences = 4, .num_microbatches = 2};
  plan.stages = {data_parallel_stage(0, 3, 2), data_parallel_stage(3, units - 3, 1)};
  const RunConfig runnable = runnable_config(plan, config, small_cluster()).value();
  EXPECT_EQ(runnable.parallel.stage_dp, "2,1");
  EXPECT_EQ(runnable.parallel.stage_layers, "2,1");
  const RunPlan compiled = make_plan(runnable, host_of(small_cluster())).value();
  EXPECT_EQ(compiled.num_ranks(), 3);
  EXPECT_EQ(compiled.global_sequences, 8);
  EXPECT_EQ(compiled.shape.micro_sequences, 2);
  EXPECT_EQ(compiled.num_microbatches, 2);
  EXPECT_EQ(compiled.stages.front().num_layers, 2);
  EXPECT_GT(predicted_step_s(compiled, small_cluster()), 0.0);
  EXPECT_TRUE(refuse_run(runnable, host_of(small_cluster())).ok());
  // The embedding alone is no stage of a run.
  plan.stages = {data_parallel_stage(0, 1, 2), data_parallel_stage(1, units - 1, 1)};
  EXPECT_NE(runnable_config(plan, config, small_cluster()).error().message.find("stage 0 has no"),
            std::string::npos);
}

// Ops may be called by roles that differ and do the same, and an MLP may share out rows beside an
// attention that shares out heads: a run has one role for both, and a rule for the MLP.
TEST(PlanSearch, RolesThatDoTheSameAreOneRoleOfARun) {
  RunConfig config = small_config(ModelFamily::Llama);
  config.model.tied_head = false;
  const Roles rows{Role::Context, Role::Whole}, parted{Role::SequenceTensor, Role::Whole};
  const Roles heads{Role::Tensor, Role::Whole};
  FoundPlan plan{.sequences = 4, .num_microbatches = 2};
  plan.stages = {data_parallel_stage(0, int(config.model.layers) + 2, 2)};
  StagePlan& stage = plan.stages.front();
  stage.mesh.dims[0].rows = Role::Context;
  UnitWay& way = stage.units.front().way;
  way.recompute = Recompute::Full;
  way.roles = {rows, heads, rows};
  way.ops = {{"norm1", false, {rows, parted}},
             {"attn.wq", true, {heads, parted}},
             {"mlp.w_up", true, {rows, parted}}};
  const RunConfig uniform = runnable_config(plan, config, small_cluster()).value();
  EXPECT_EQ(uniform.parallel.tp, 2);
  EXPECT_TRUE(uniform.parallel.sequence);
  EXPECT_EQ(uniform.memory.recompute, Recompute::Full);
  EXPECT_TRUE(uniform.parallel.layers.empty());
  EXPECT_TRUE(make_plan(uniform, host_of(small_cluster())).ok());
  way.ops.back().alike = {rows};
  const RunConfig hybrid = runnable_config(plan, config, small_cluster()).value();
  EXPECT_EQ(layer_rules_text(hybrid.parallel.layers), R"([{match = "mlp.*", strategy = "data"}])");
  const Result<RunPlan> compiled = make_plan(hybrid, host_of(small_cluster()));
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_EQ(compiled->shape.tp, 2);
  // Attention has no such rule.
  way.ops[1].alike = {rows};
  EXPECT_FALSE(runnable_config(plan, config, small_cluster()).ok());
}

// A stage whose ranks share out layers runs beside one whose ranks share out sequences.
TEST(PlanSearch, APlanWithTensorDegreesByStageIsAConfigurationThatCompiles) {
  RunConfig config = small_config(ModelFamily::Llama);
  config.model.tied_head = false;
  const int units = int(config.model.layers) + 2;
  FoundPlan plan{.sequences = 4, .num_microbatches = 2};
  plan.stages = {data_parallel_stage(0, 3, 2), data_parallel_stage(3, units - 3, 2)};
  for (Roles& roles : plan.stages[1].units.front().way.roles) roles[0] = Role::Tensor;
  const RunConfig runnable = runnable_config(plan, config, small_cluster()).value();
  EXPECT_EQ(runnable.parallel.stage_tp, "1,2");
  EXPECT_EQ(runnable.parallel.stage_dp, "2,1");
  EXPECT_FALSE(runnable.parallel.sequence);
  const RunPlan compiled = make_plan(runnable, host_of(small_cluster())).value();
  EXPECT_EQ(compiled.num_ranks(), 4);
  EXPECT_GT(predicted_step_s(compiled, small_cluster()), 0.0);
  // All tp ranks of a run share out the rows of the residual stream, or none do.
  for (Roles& roles : plan.stages[0].units.front().way.roles) roles[0] = Role::SequenceTensor;
  EXPECT_NE(runnable_config(plan, config, small_cluster())
                .error()
                .message.find("only one of them also the rows"),
            std::string::npos);
  plan.stages[0].units.front().way.roles.back()[0] = Role::Data;
  EXPECT_NE(runnable_config(plan, config, small_cluster())
                .error()
                .message.find("stage 0 has ops with the roles tensor+sequence 2 and others with"),
            std::string::npos);
}

// The search also finds plans whose stages have degrees of their own and that a run can have. Their
// prices are near those of the plans that are compiled from them.
TEST(PlanSearch, PlansByStageCompileAndHaveThePricesOfTheirRuns) {
  RunConfig config = small_config(ModelFamily::Llama);
  config.model.tied_head = false;
  const Hardware hardware = small_cluster();
  const PlanSearch found = search_plan(run_with(config, 4e9)).value();
  ASSERT_FALSE(found.by_stage.empty());
  int compiled = 0;
  for (const FoundPlan& by_stage : found.by_stage) {
    const Result<RunConfig> runnable = runnable_config(by_stage, config, hardware);
    ASSERT_TRUE(runnable.ok()) << runnable.error().message;
    const Result<RunPlan> plan = make_plan(*runnable, host_of(hardware));
    if (!plan.ok()) continue;
    ++compiled;
    const double predicted_s = predicted_step_s(*plan, hardware);
    EXPECT_NEAR(by_stage.step_s, predicted_s, 0.25 * predicted_s) << degrees_text(plan->mesh);
  }
  EXPECT_GT(compiled, 0);
  EXPECT_LE(found.best.step_s, found.by_stage.front().step_s);
}

// A table that the first and the last stage both hold leaves them degrees of their own.
TEST(PlanSearch, PlansByStageKeepTheRulesOfRuns) {
  const Hardware hardware = small_cluster();
  for (const bool is_tied : {false, true}) {
    int unequal = 0;
    for (const double memory : {4e9, 60e6, 40e6, 30e6}) {
      RunConfig config = small_config(ModelFamily::Llama);
      config.model.tied_head = is_tied;
      config.model.layers = 5;
      const PlannedRun run = run_with(config, memory);
      for (const int64_t sequences : {int64_t{2}, int64_t{4}}) {
        std::vector<FoundPlan> by_stage;
        add_plans_by_stage(run, sequences, operators_of(run), by_stage);
        for (const FoundPlan& plan : by_stage) {
          const RunConfig runnable = runnable_config(plan, config, hardware).value();
          const Result<SizedPlan> compiled = make_sized_plan(runnable, host_of(hardware));
          ASSERT_TRUE(compiled.ok()) << compiled.error().message;
          const Mesh& mesh = compiled->plan.mesh;
          unequal += mesh.at(0) == mesh.at(mesh.pp - 1) ? 0 : 1;
        }
      }
    }
    EXPECT_GT(unequal, 0) << is_tied;
  }
}

// Whatever uniform plan fits, its stages with a role for every op take no longer, and the best plan
// is no slower than any of these.
TEST(PlanSearch, NoPlanWithTheStagesOfAUniformOneIsFaster) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Moe}) {
    for (const double memory : {4e9, 60e6}) {
      const PlannedRun run = run_with(small_config(family), memory);
      const PlanSearch found = search_plan(run).value();
      int compared = 0;
      for (const FoundPlan& uniform : found.uniforms) {
        ClusterStages search(run, uniform.sequences);
        const auto freed = with_stages_of(run, search, by_op(search), uniform);
        ASSERT_TRUE(freed);
        ++compared;
        EXPECT_LE(freed->formula_s, uniform.formula_s * (1.0 + 1e-12));
        EXPECT_LE(found.best.step_s, freed->step_s);
      }
      EXPECT_GT(compared, 0);
    }
  }
}

TEST(PlanSearch, TooLittleMemoryIsNamedAsWhatBinds) {
  int refusals = 0;
  for (const double memory : {1e6, 4e6, 8e6, 12e6, 16e6, 20e6, 4e9}) {
    const Result<PlanSearch> found = search_plan(run_with(small_config(ModelFamily::Gpt2), memory));
    if (found.ok()) continue;
    ++refusals;
    EXPECT_EQ(found.error().kind, ErrorKind::Infeasible);
    EXPECT_NE(found.error().message.find("memory binds"), std::string::npos)
        << found.error().message;
  }
  EXPECT_GT(refusals, 1);
  EXPECT_LT(refusals, 7);
}

}  // namespace
}  // namespace trireme
