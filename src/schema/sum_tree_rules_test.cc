#include "schema/sum_tree_rules.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trireme
