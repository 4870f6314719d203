#include "schema/degree_rules.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace trireme {
namespace {

constexpr int kMost = 130;

RunConfig some_run(ModelFamily family, int64_t kv_heads) {
  RunConfig config;
  config.model.family = family;
  config.model.d_model = 96;
  config.model.heads = 8;
  config.model.kv_heads = kv_heads;
  config.model.head_dim = 12;
  config.model.d_ff = 192;
  config.model.experts = 12;
  config.model.seq_len = 96;
  config.batch.global_sequences = 24;
  config.batch.micro_sequences = 2;
  return config;
}

// Returns the numbers after "try".
std::set<int> named_by(const ConfigProblem& problem) {
  std::set<int> numbers;
  const std::string list = problem.remedy.substr(problem.remedy.find("try "));
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(list.begin(), list.end(), number), end; it != end; ++it) {
    numbers.insert(std::stoi(it->str()));
  }
  return numbers;
}

// Checks that a degree is accepted, or that the message names exactly the accepted ones.
void expect_lists_are_what_is_taken(const RunConfig& config, const std::string& key,
                                    int ParallelConfig::*degree) {
  std::set<int> taken;
  std::vector<ConfigProblem> refused;
  for (int value = 1; value <= kMost; ++value) {
    RunConfig other = config;
    other.parallel.*degree = value;
    const std::vector<ConfigProblem> problems = validate(other);
    if (problems.empty()) taken.insert(value);
    ASSERT_LE(problems.size(), 1u) << problems.back().message();
    refused.insert(refused.end(), problems.begin(), problems.end());
  }
  ASSERT_FALSE(taken.empty() || refused.empty()) << key;
  for (const ConfigProblem& problem : refused) {
    if (key == "parallel.dp" && problem.key == "batch.micro_sequences") continue;
    EXPECT_EQ(problem.key, key) << problem.message();
    EXPECT_EQ(named_by(problem), taken) << problem.message();
  }
}

TEST(DegreeRules, WhatARefusalNamesIsWhatIsTaken) {
  for (const ModelFamily family : {ModelFamily::Llama, ModelFamily::Moe}) {
    for (const int64_t kv_heads : {0, 2, 4, 8}) {
      const RunConfig config = some_run(family, kv_heads);
      expect_lists_are_what_is_taken(config, "parallel.tp", &ParallelConfig::tp);
      expect_lists_are_what_is_taken(config, "parallel.cp", &ParallelConfig::cp);
      expect_lists_are_what_is_taken(config, "parallel.dp", &ParallelConfig::dp);
    }
  }
  for (const auto& [dp, cp] : {std::pair{1, 1}, {12, 1}, {3, 4}, {4, 6}, {2, 8}}) {
    RunConfig config = some_run(ModelFamily::Moe, 4);
    config.parallel.dp = dp;
    config.parallel.cp = cp;
    expect_lists_are_what_is_taken(config, "parallel.ep", &ParallelConfig::ep);
  }
}

TEST(DegreeRules, KvHeadsMayLieOnSeveralRanks) {
  RunConfig config = some_run(ModelFamily::Llama, 4);
  config.parallel.tp = 3;
  const std::vector<ConfigProblem> problems = validate(config);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message(), "parallel.tp = 3 must divide model.heads = 8; try 1, 2, 4 or 8");
}

}  // namespace
}  // namespace trireme
