#include "compile/layer_values.h"

#include <gtest/gtest.h>

#include "memory/stage_tables.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig values_run(ModelFamily family, int tp, double layer_scale) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 3;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.d_ff = 100;
  config.model.experts = family == ModelFamily::Moe ? 4 : 0;
  config.model.layer_scale = layer_scale;
  config.model.vocab_size = 300;
  config.model.seq_len = 32;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 2;
  config.parallel.tp = tp;
  config.parallel.sequence = tp > 1;
  return config;
}

// What one more layer adds to the saved table of rank 0.
int64_t saved_by_layer(const RunPlan& plan) {
  const StageShape& shape = plan.pipeline.front().shape;
  const auto bytes = [&](int64_t layers) {
    return stage_tables(plan.model, {0, layers, false, false}, shape).saved.bytes();
  };
  return bytes(2) - bytes(1);
}

// The values that are kept have the bytes of the saved table, and those that are computed again
// have the bytes that "none" stores more.
TEST(LayerValues, TheirBytesAreThoseOfTheTables) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const int tp : {1, 2}) {
      for (const double layer_scale : {0.0, 0.1}) {
        RunConfig config = values_run(family, tp, layer_scale);
        const RunPlan none = make_plan(config, {}).value();
        const int64_t all = saved_by_layer(none);
        std::vector<RunPlan> plans = {none};
        for (const Recompute policy : {Recompute::Selective, Recompute::Full, Recompute::Fit}) {
          config.memory.recompute = policy;
          if (policy == Recompute::Fit) {
            config.memory.limit_bytes =
                (none.largest().memory.arena_bytes + plans.back().largest().memory.arena_bytes) / 2;
          }
          plans.push_back(make_plan(config, {}).value());
        }
        for (const RunPlan& plan : plans) {
          int64_t kept = 0, again = 0;
          for (const LayerValue& value : layer_values(plan, 0)) {
            (value.is_again ? again : kept) += value.bytes;
          }
          const auto policy = name_of(plan.config.memory.recompute);
          EXPECT_EQ(kept, saved_by_layer(plan)) << policy;
          EXPECT_EQ(again, all - saved_by_layer(plan)) << policy;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
