#include "schema/sum_tree_rules.h"

#include <gtest/gtest.h>

#include <functional>
#include <regex>

namespace trireme {
namespace {

RunConfig some_run(int dp, int zero, int hsdp_shard, ScheduleKind schedule, int64_t microbatches) {
  RunConfig config;
  config.model.layers = 4;
  config.run.reproducible = Reproducible::Layout;
  config.batch.micro_sequences = 2;
  config.batch.global_sequences = 2 * microbatches * dp;
  config.parallel.dp = dp;
  config.parallel.pp = 2;
  config.parallel.zero = zero;
  config.parallel.hsdp_shard = hsdp_shard;
  config.parallel.schedule = schedule;
  return config;
}

void set(RunConfig& config, const std::string& key, int value) {
  if (key == "parallel.dp") config.parallel.dp = value;
  if (key == "parallel.hsdp_shard") config.parallel.hsdp_shard = value;
  if (key == "batch.micro_sequences") config.batch.micro_sequences = value;
}

// Returns the numbers between "try" and the comma after the last of them.
std::vector<int> degrees_named_by(const ConfigProblem& problem) {
  std::vector<int> numbers;
  std::smatch list;
  if (!std::regex_search(problem.remedy, list, std::regex("try ([0-9 ,or]+),"))) return {};
  const std::string text = list[1].str();
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    numbers.push_back(std::stoi(it->str()));
  }
  return numbers;
}

// Each value that a refusal names removes the refusal and causes no other.
TEST(SumTreeRules, WhatARefusalNamesIsTaken) {
  int num_refused = 0, num_named = 0;
  for (int dp = 1; dp <= 12; ++dp) {
    for (int zero = 0; zero <= 3; ++zero) {
      for (int shard = 0; shard <= dp; ++shard) {
        if (shard > 0 && dp % shard != 0) continue;
        for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::Dualpipe}) {
          for (const int64_t microbatches : {4, 6, 8, 12}) {
            const RunConfig config = some_run(dp, zero, shard, schedule, microbatches);
            const std::vector<ConfigProblem> problems = validate(config);
            for (const ConfigProblem& problem : problems) {
              ++num_refused;
              for (const int value : degrees_named_by(problem)) {
                ++num_named;
                RunConfig other = config;
                set(other, problem.key, value);
                if (problem.key == "parallel.dp") other.parallel.hsdp_shard = 0;
                EXPECT_EQ(validate(other).size(), problems.size() - 1)
                    << problem.message() << ": " << value;
              }
              if (problem.remedy.find("parallel.zero = 1") == std::string::npos) continue;
              RunConfig other = config;
              other.parallel.zero = 1;
              other.parallel.hsdp_shard = 0;
              EXPECT_TRUE(validate(other).empty()) << problem.message();
            }
            RunConfig fixed = config;
            fixed.run.reproducible = Reproducible::Fixed;
            EXPECT_TRUE(validate(fixed).empty());
          }
        }
      }
    }
  }
  EXPECT_GT(num_refused, 200);
  EXPECT_GT(num_named, 200);
}

// Tests sums of neighbouring ranks, of their copies and of two directions over any number of ranks.
TEST(SumTreeRules, EveryDegreeIsTakenWhoseSumsAreNodes) {
  for (int dp = 1; dp <= 12; ++dp) {
    EXPECT_TRUE(validate(some_run(dp, 1, 0, ScheduleKind::OneFOneB, 4)).empty()) << dp;
    EXPECT_TRUE(validate(some_run(dp, 1, 0, ScheduleKind::Dualpipe, 4)).empty()) << dp;
    EXPECT_TRUE(validate(some_run(dp, 1, dp, ScheduleKind::Dualpipe, 4)).empty()) << dp;
    if (dp % 2 == 0) {
      EXPECT_TRUE(validate(some_run(dp, 1, 2, ScheduleKind::OneFOneB, 4)).empty()) << dp;
    }
  }
}

RunConfig with_step_norms(int dp, int64_t leaves) {
  RunConfig config;
  config.model.family = ModelFamily::ConvNet;
  config.model.layers = 2;
  config.model.image_size = 8;
  config.model.seq_len = 1;
  config.model.vocab_size = 10;
  config.model.batch_norm = NormBatch::Step;
  config.data.source = DataSource::Synthetic;
  config.run.reproducible = Reproducible::Layout;
  config.batch.micro_sequences = 2;
  config.batch.global_sequences = 2 * leaves * dp;
  config.parallel.dp = dp;
  return config;
}

// One rank has any number of leaves. Several have powers of two, and are a power of two.
TEST(SumTreeRules, LeavesOfBatchNormsOverAStepAreNodesOfTheTree) {
  const auto is_power = [](int64_t n) { return (n & (n - 1)) == 0; };
  for (int dp = 1; dp <= 12; ++dp) {
    for (const int64_t leaves : {1, 3, 4, 6}) {
      const RunConfig config = with_step_norms(dp, leaves);
      const std::vector<ConfigProblem> problems = validate(config);
      EXPECT_EQ(problems.empty(), dp == 1 || (is_power(dp) && is_power(leaves))) << dp << leaves;
      for (const ConfigProblem& problem : problems) {
        for (const int value : degrees_named_by(problem)) {
          RunConfig other = config;
          set(other, problem.key, value);
          const bool is_other_leaf = problem.key == "parallel.dp" && value > 1;
          EXPECT_EQ(validate(other).empty(), !is_other_leaf || is_power(leaves * dp / value))
              << problem.message() << ": " << value;
        }
      }
      RunConfig fixed = config;
      fixed.run.reproducible = Reproducible::Fixed;
      EXPECT_TRUE(validate(fixed).empty());
    }
  }
}

TEST(StepNormRules, WhatDoesNotGoWithThemIsRefused) {
  EXPECT_TRUE(validate(with_step_norms(2, 2)).empty());
  const std::pair<const char*, std::function<void(RunConfig&)>> changes[] = {
      {"whole images",
       [](RunConfig& c) {
         c.parallel.layers = {{"*", LayerStrategy::Spatial}};
       }},
      {"parallel.stage_dp",
       [](RunConfig& c) {
         c.parallel.pp = 2;
         c.parallel.stage_dp = "2,1";
       }},
      {"replay_elsewhere_every", [](RunConfig& c) { c.run.replay_elsewhere_every = 1; }},
      {"noise_scale_every", [](RunConfig& c) { c.run.noise_scale_every = 1; }},
      {"leaves of batch.micro_sequences", [](RunConfig& c) { c.parallel.tp = 2; }},
      {"has none", [](RunConfig& c) { c.model.family = ModelFamily::AlexNet; }}};
  for (const auto& [part, change] : changes) {
    bool is_found = false;
    RunConfig config = with_step_norms(2, 2);
    change(config);
    for (const ConfigProblem& problem : validate(config)) {
      is_found = is_found || (problem.key == "model.batch_norm" &&
                              problem.message().find(part) != std::string::npos);
    }
    EXPECT_TRUE(is_found) << part;
  }
}

}  // namespace
}  // namespace trireme
