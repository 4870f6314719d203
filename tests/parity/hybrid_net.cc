#include "hybrid_net.h"

#include <gtest/gtest.h>

#include "layout_laws.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {
constexpr int64_t kClasses = 10;
}  // namespace

RunConfig hybrid_config_of(const HybridNet& net, const HybridLayout& layout) {
  RunConfig config;
  config.model.family = net.family;
  config.model.layers = net.layers;
  config.model.image_size = net.image_size;
  config.model.image_channels = 3;
  config.model.vocab_size = kClasses;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.micro_sequences = layout.images;
  config.batch.global_sequences = 2 * layout.images;
  config.parallel.dp = layout.dp;
  config.parallel.tp = layout.tp;
  config.parallel.pp = layout.pp;
  config.parallel.zero = layout.zero;
  config.parallel.schedule = layout.schedule;
  config.parallel.layers = layout.layers;
  config.memory.recompute = layout.recompute;
  config.precision.compute = ComputeChoice::Fp32;
  config.run.reproducible = Reproducible::Layout;
  config.run.threads_per_rank = 1;
  // Every fifth seed or so has a value that is nearly 0 before a ReLU. The order of sums then
  // decides whether its gradient passes, which changes those of the layers below by up to 1 %.
  config.run.seed = 2;
  return config;
}

RunPlan plan_of_hybrid(const HybridNet& net, const HybridLayout& layout) {
  Result<RunPlan> plan = make_plan(hybrid_config_of(net, layout), {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *plan;
}

LayoutRun run_of(const RunPlan& plan, int steps) {
  const LayoutRun run = run_layout(plan, {.end = steps, .lr = 1e-3});
  EXPECT_EQ(run.differences, "");
  return run;
}

void expect_near_one_rank(const HybridNet& net, const std::vector<HybridLayout>& layouts) {
  const LayoutRun one = run_of(plan_of_hybrid(net, {}), 2);
  for (const HybridLayout& layout : layouts) {
    SCOPED_TRACE(testing::Message() << "dp " << layout.dp << ", tp " << layout.tp << ", pp "
                                    << layout.pp << ", zero " << layout.zero);
    expect_near(run_of(plan_of_hybrid(net, layout), 2), one);
  }
}

int64_t planned_bytes(const RunPlan& plan) {
  int64_t bytes = 0;
  for (int position = 0; position < plan.num_ranks(); ++position) {
    for (const auto& [axis, sent] :
         predict_traffic(plan, rank_plan(plan, position), plan.num_ranks())) {
      if (axis != "world") bytes += sent;
    }
  }
  return bytes;
}

}  // namespace trireme
