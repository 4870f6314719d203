// Laws of the rules of RUN.toml: what validation accepts has a plan, and train, plan and library
// accept the same runs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/plan_command.h"
#include "cli/train_command.h"
#include "compile/stage_cost.h"
#include "config/config_load.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
#include "random/random_run.h"
#include "schema/run_config_fields.h"
#include "schema/run_config_text.h"
#include "schema/run_config_validate.h"
#include "session/session.h"

namespace trireme {
namespace {

constexpr int64_t kDataVocabSize = 19;

RunConfig run_of_seed(uint64_t seed) {
  std::mt19937_64 random(seed);
  return random_run(random, {}, DrawnFor::Planning);
}

HostFacts some_host() { return {.memory_bytes = 0, .num_cores = 4}; }

std::string memory_of(const RunPlan& plan) {
  std::string text = fmt::format("{} ranks", plan.num_ranks());
  for (const RankClass& alike : plan.classes) {
    text += fmt::format(", {} from {}: {} of {}", alike.num_ranks, alike.first,
                        alike.memory.peak_bytes, alike.memory.arena_bytes);
  }
  return text;
}

struct Verdict {
  std::string broken_law;  // "" if the laws hold
  bool is_accepted = false;
};

// The refusals that may come behind validation: what the run needs is more than there is.
bool is_of_memory(const Error& error) {
  return error.kind == ErrorKind::Infeasible &&
         (error.message.starts_with("the plan") || error.message.starts_with("the model has"));
}

// Holds `config`, whose data has a vocabulary of `vocab_size` tokens, against the laws.
Verdict judge(const RunConfig& config, int64_t vocab_size) {
  const std::vector<ConfigProblem> problems = validate_with_data(config, vocab_size);
  bool is_file_refused = false;
  for (const ConfigProblem& problem : validate(config)) {
    is_file_refused = is_file_refused || problem.kind == ErrorKind::Usage;
  }
  const Result<LoadedConfig> loaded = load_config_text(to_toml(config), "run.toml", {});
  if (loaded.ok() == is_file_refused) {
    return {"the file is read otherwise than validate() says: " +
            (loaded.ok() ? validate(config).front().message() : loaded.error().message)};
  }
  if (is_file_refused && problems.empty()) return {"the data removes a problem of the file"};
  HostFacts host = some_host();
  host.data_vocab_size = vocab_size;
  const Result<RunPlan> plan = make_plan(config, host);
  if (!plan.ok()) {
    const Error& error = plan.error();
    if (problems.empty()) return {is_of_memory(error) ? "" : "refused too late: " + error.message};
    const bool is_first = error.message == problems.front().message();
    return {is_first ? "" : "refused in other words: " + error.message};
  }
  if (!problems.empty()) return {"planned in spite of " + problems.front().message()};
  const Result<RunPlan> again = make_plan(loaded->config, host);
  if (!again.ok()) return {"refused as a file alone: " + again.error().message};
  if (memory_of(*plan) != memory_of(*again)) {
    return {fmt::format("{}, but as a file {}", memory_of(*plan), memory_of(*again))};
  }
  const Predictions predictions = predict_ranks(*plan, nominal_hardware());
  if (predictions.classes.empty()) return {"nothing is predicted"};
  return {"", true};
}

Verdict judge_safely(const RunConfig& config, int64_t vocab_size) {
  try {
    return judge(config, vocab_size);
  } catch (const std::exception& error) {
    return {std::string("fails behind validation: ") + error.what()};
  }
}

// The run with as many fields at their defaults as possible that still breaks a law.
RunConfig smallest_that_fails(RunConfig config, int64_t vocab_size) {
  const RunConfig usual;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = 0; i < config_fields(config).size(); ++i) {
      RunConfig simpler = config;
      RunConfig defaults = usual;
      const ConfigField field = config_fields(simpler)[i];
      const ConfigField plain = config_fields(defaults)[i];
      if (toml_text(field) == toml_text(plain)) continue;
      std::visit(
          [&](auto value) {
            using Value = decltype(value);
            if constexpr (std::is_same_v<Value, ChoiceField> || std::is_same_v<Value, StepsField>) {
              *value.value = *std::get<Value>(plain.value).value;
            } else if constexpr (std::is_same_v<Value, MixtureField>) {
              value.file->clear();
              value.mixture->clear();
            } else if constexpr (std::is_same_v<Value, LayersField>) {
              value.rules->clear();
            } else {
              *value = *std::get<Value>(plain.value);
            }
          },
          field.value);
      if (judge_safely(simpler, vocab_size).broken_law.empty()) continue;
      config = simpler;
      has_changed = true;
    }
  }
  return config;
}

void expect_laws_of_rules(uint64_t first, uint64_t count, double least_accepted) {
  uint64_t num_accepted = 0, num_broken = 0;
  for (uint64_t seed = first; seed < first + count && num_broken < 10; ++seed) {
    const RunConfig config = run_of_seed(seed);
    const int64_t vocab_size = seed % 4 == 0 ? kDataVocabSize : 0;
    const Verdict verdict = judge_safely(config, vocab_size);
    num_accepted += verdict.is_accepted ? 1 : 0;
    if (verdict.broken_law.empty()) continue;
    ++num_broken;
    const RunConfig smallest = smallest_that_fails(config, vocab_size);
    ADD_FAILURE() << "seed " << seed << ", vocabulary of the data " << vocab_size << ": "
                  << verdict.broken_law << "\n  smallest: " << overrides_of(smallest) << "\n  "
                  << judge_safely(smallest, vocab_size).broken_law;
  }
  EXPECT_GE(double(num_accepted), least_accepted * double(count)) << "too few runs are accepted";
}

TEST(Rules, WhatValidationAcceptsHasAPlanOfTwoThousandRandomRuns) {
  expect_laws_of_rules(0, 2000, 0.2);
}

TEST(RulesInFull, WhatValidationAcceptsHasAPlanOfTenThousandRandomRuns) {
  expect_laws_of_rules(2000, 8000, 0.2);
}

class RulesOfCommands : public testing::Test {
 protected:
  struct Outcome {
    int exit_code = 0;
    nlohmann::json json;
    std::string error;
  };
  // Runs a command in this process.
  template <typename Run>
  static Outcome outcome_of(Run&& run) {
    std::ostringstream out, err;
    CommandIo io{.out = out, .err = err};
    const Result<int> result = run(io);
    if (!result.ok()) return {1, {}, result.error().message};
    return {*result, parse_json(out.str()), ""};
  }
};

// The two commands, as a user calls them: the same refusals, the same ranks with the same memory.
TEST_F(RulesOfCommands, WhatPlanAcceptsTrainAcceptsWithTheSameMemory) {
  const std::string folder = testing::TempDir() + "/rules_of_commands";
  std::filesystem::create_directories(folder);
  const std::string hardware_file = folder + "/hardware.toml", run_file = folder + "/run.toml";
  Hardware hardware = nominal_hardware();
  hardware.threads = 2;
  ASSERT_TRUE(write_file_atomically(hardware_file, to_toml(hardware)).ok());
  int num_accepted = 0;
  for (uint64_t seed = 20000; seed < 20220; ++seed) {
    RunConfig config = run_of_seed(seed);
    config.run.hardware = hardware_file;
    config.run.threads_per_rank = 2;
    config.run.isa = IsaChoice::Auto;
    ASSERT_TRUE(write_file_atomically(run_file, to_toml(config)).ok());
    const Outcome planned = outcome_of([&](CommandIo& io) {
      return run_plan({.config = {.files = {run_file}}, .cluster = hardware_file, .json = true},
                      io);
    });
    const Outcome trained = outcome_of([&](CommandIo& io) {
      return run_train({.config = {.files = {run_file}}, .dry_run = true, .json = true}, io);
    });
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, overrides_of(config)));
    EXPECT_EQ(planned.error, trained.error);
    if (!planned.error.empty() || !trained.error.empty()) continue;
    ASSERT_EQ(planned.json["classes"].size(), trained.json["classes"].size());
    for (size_t i = 0; i < planned.json["classes"].size(); ++i) {
      const auto &mine = planned.json["classes"][i], &other = trained.json["classes"][i];
      for (const char* key : {"ranks", "first", "memory"}) EXPECT_EQ(mine[key], other[key]);
    }
    ++num_accepted;
  }
  EXPECT_GE(num_accepted, 30);
}

}  // namespace
}  // namespace trireme
