#include "session/agree_on_plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "comm/world.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

RunPlan some_plan() {
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 32;
  config.model.heads = 2;
  config.model.vocab_size = 64;
  config.model.seq_len = 32;
  config.batch.micro_sequences = 1;
  config.batch.global_sequences = 8;
  config.parallel.pp = 2;
  config.parallel.dp = 2;
  return make_plan(config, {}).value();
}

// The error on rank 0 after the last rank's plan was changed; "" if all ranks agree.
std::string refusal_after(const std::function<void(RunPlan&)>& change) {
  const RunPlan plan = some_plan();
  RunPlan changed = plan;
  change(changed);
  std::string refusal;
  run_ranks(plan.num_ranks(), {.timeout_s = 60.0}, [&](World& world) {
    const bool is_last = world.rank() + 1 == plan.num_ranks();
    const Status agreed = agree_on_plan(world, is_last ? changed : plan);
    if (world.rank() == 0 && !agreed.ok()) refusal = agreed.error().message;
  });
  return refusal;
}

TEST(AgreeOnPlan, NamesTheRankAndTheFirstPartThatDiffer) {
  EXPECT_EQ(refusal_after([](RunPlan&) {}), "");
  const std::pair<std::string, std::function<void(RunPlan&)>> changes[] = {
      {"the mesh", [](RunPlan& plan) { std::swap(plan.mesh.dp, plan.mesh.tp); }},
      {"the layers of the stages", [](RunPlan& plan) { ++plan.stages[0].num_layers; }},
      {"the choice of values that are computed again", [](RunPlan& plan) { plan.shape.again = 1; }},
      {"the program of pipeline rank 1",
       [](RunPlan& plan) { plan.pipeline[1].program.pop_back(); }},
      {"the evaluation of pipeline rank 0",
       [](RunPlan& plan) { plan.pipeline[0].eval_program.pop_back(); }},
      {"the classes of ranks", [](RunPlan& plan) { plan.class_of.back() = 7; }},
  };
  for (const auto& [name, change] : changes) {
    const std::string refusal = refusal_after(change);
    EXPECT_NE(refusal.find("rank 0 and rank 3 have compiled different plans: " + name + " differs"),
              std::string::npos)
        << name << ": " << refusal;
  }
}

}  // namespace
}  // namespace trireme
