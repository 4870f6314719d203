#include "planner/plan_warnings.h"

#include <gtest/gtest.h>

#include <functional>

#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig llama_run() {
  RunConfig config;
  config.model.family = ModelFamily::Llama;
  config.model.d_model = 64;
  config.model.vocab_size = 64;
  config.model.seq_len = 32;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  return config;
}

std::vector<std::string> warnings_of(const RunConfig& config) {
  return plan_warnings(make_plan(config, {}).value());
}

struct Setting {
  std::string key;  // first word of the warning
  std::function<void(RunConfig&)> set;
  std::function<void(RunConfig&)> give_effect;
};

TEST(PlanWarnings, ASettingWithoutAnEffectHasOneLineAndWithOneNone) {
  const Setting settings[] = {
      {"model.experts", [](RunConfig& c) { c.model.experts = 4; },
       [](RunConfig& c) { c.model.family = ModelFamily::Moe; }},
      {"parallel.sequence", [](RunConfig& c) { c.parallel.sequence = true; },
       [](RunConfig& c) { c.parallel.tp = 2; }},
      {"parallel.tp_overlap", [](RunConfig& c) { c.parallel.tp_overlap = true; },
       [](RunConfig& c) { c.parallel.tp = 2; }},
      {"parallel.context", [](RunConfig& c) { c.parallel.context = ContextExchange::AllToAll; },
       [](RunConfig& c) { c.parallel.cp = 2; }},
      {"optim.warmup_steps", [](RunConfig& c) { c.optim.warmup_steps = 101; },
       [](RunConfig& c) { c.run.steps = 101; }},
  };
  EXPECT_TRUE(warnings_of(llama_run()).empty());
  for (const Setting& setting : settings) {
    RunConfig config = llama_run();
    setting.set(config);
    const std::vector<std::string> warnings = warnings_of(config);
    ASSERT_EQ(warnings.size(), 1u) << setting.key;
    EXPECT_EQ(warnings[0].find(setting.key), 0u) << warnings[0];
    setting.give_effect(config);
    EXPECT_TRUE(warnings_of(config).empty()) << setting.key;
  }
}

TEST(PlanWarnings, SamplesNeedARankWithTheWholeModel) {
  const std::function<void(ParallelConfig&)> cuts[] = {
      [](ParallelConfig& parallel) { parallel.tp = 2; },
      [](ParallelConfig& parallel) { parallel.pp = 2; },
      [](ParallelConfig& parallel) { parallel.dp = parallel.ep = 2; },
      [](ParallelConfig& parallel) { parallel.dp = 2, parallel.zero = 3; },
  };
  RunConfig whole = llama_run();
  whole.model.family = ModelFamily::Moe;
  whole.data.tokenizer = "tokenizer.json";
  whole.run.sample_every = 10;
  for (const int dp : {1, 2}) {
    whole.parallel.dp = dp;
    EXPECT_TRUE(warnings_of(whole).empty());
  }
  whole.parallel.dp = 1;
  for (const auto& cut : cuts) {
    RunConfig config = whole;
    cut(config.parallel);
    ASSERT_EQ(warnings_of(config).size(), 1u);
    EXPECT_EQ(warnings_of(config)[0].find("run.sample_every writes no samples during training"),
              0u);
  }
}

}  // namespace
}  // namespace trireme
