#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "compile/stage_cost.h"
#include "session/session.h"

namespace trireme {

// Runs sessions of small models, each in its own folder below a folder that is removed with the
// test.
class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / fmt::format("trireme-session-{}", getpid());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static RunConfig tiny_run(ComputeChoice compute, int64_t steps) {
    RunConfig config;
    config.model.layers = 2;
    config.model.d_model = 32;
    config.model.heads = 2;
    config.model.vocab_size = 64;
    config.model.seq_len = 32;
    config.data.source = DataSource::Synthetic;
    config.batch.micro_sequences = 1;
    config.optim.lr = 5e-3;
    config.optim.warmup_steps = 2;
    config.precision.compute = compute;
    config.run.steps = steps;
    config.run.threads_per_rank = 1;
    return config;
  }

  // Returns the reports of all steps of the session. `checkpoint` is that of ResumeMode::Path.
  std::vector<StepReport> reports_of(const RunConfig& config, const std::string& folder,
                                     ResumeMode resume = ResumeMode::Fresh,
                                     const std::string& checkpoint = "",
                                     const OpenInput& open_input = {}) const {
    class Reports : public RunObserver {
     public:
      void on_step(const StepReport& report) override { values.push_back(report); }
      std::vector<StepReport> values;
    } reports;
    const std::atomic<int> no_signals = 0;
    HostFacts host;
    host.num_cores = 2;
    const Result<SessionResult> result = run_session({.config = config,
                                                      .out_dir = (root_ / folder).string(),
                                                      .resume = resume,
                                                      .resume_path = checkpoint,
                                                      .host = host,
                                                      .hardware = hardware_,
                                                      .stop_signals = no_signals,
                                                      .observers = {&reports},
                                                      .open_input = open_input});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return reports.values;
  }

  // Returns the lines of one event in the metrics of a run.
  std::vector<nlohmann::json> lines_of(const std::string& folder, const std::string& event) const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(*read_text_file(path(folder) + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      auto json = parse_json(line);
      if (json.value("event", "") == event) lines.push_back(std::move(json));
    }
    return lines;
  }

  // The run has these reports with dp and ZeRO-3, with pp, and if it stops after step 3 and resumes
  // with dp.
  void expect_same_on_layouts_and_resumed(const RunConfig& config,
                                          const std::vector<StepReport>& want) const {
    const auto expect_same = [&](const std::vector<StepReport>& got, size_t first) {
      ASSERT_EQ(got.size(), want.size() - first);
      for (size_t step = 0; step < got.size(); ++step) {
        EXPECT_EQ(got[step].loss, want[step + first].loss);
        EXPECT_EQ(got[step].grad_norm, want[step + first].grad_norm);
      }
    };
    RunConfig dp = config;
    dp.parallel.dp = 2;
    dp.parallel.zero = 3;
    expect_same(reports_of(dp, "dp"), 0);
    RunConfig pp = config;
    pp.parallel.pp = 2;
    expect_same(reports_of(pp, "pp"), 0);
    RunConfig stopped = config;
    stopped.run.stop_after = 3;
    reports_of(stopped, "stopped");
    dp.run.stop_after = 0;
    expect_same(reports_of(dp, "stopped", ResumeMode::Auto), 3);
  }

  // The messages to the user, and how the session ended.
  struct Outcome {
    Result<SessionResult> result;
    std::string messages;
  };

  Outcome outcome_of(const RunConfig& config, const std::string& folder,
                     ResumeMode resume = ResumeMode::Fresh, RunObserver* beside = nullptr) const {
    class Messages : public RunObserver {
     public:
      void on_message(std::string_view message) override { text += std::string(message) + "\n"; }
      std::string text;
    } messages;
    const std::atomic<int> no_signals = 0;
    HostFacts host;
    host.num_cores = 2;
    std::vector<RunObserver*> observers = {&messages};
    if (beside != nullptr) observers.push_back(beside);
    Result<SessionResult> result = run_session({.config = config,
                                                .out_dir = path(folder),
                                                .resume = resume,
                                                .host = host,
                                                .hardware = hardware_,
                                                .stop_signals = no_signals,
                                                .observers = observers});
    return {std::move(result), messages.text};
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::filesystem::path root_;
  // Runs get a hardware file, because measuring the kernels takes longer than their steps.
  std::optional<Hardware> hardware_ = nominal_hardware();
};

}  // namespace trireme
