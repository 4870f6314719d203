#include "checkpoint/best_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/find_checkpoint.h"
#include "data/token_file_writer.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Trains on a few tokens that the model soon memorizes, so that the validation loss first falls and
// then rises.
class BestCheckpoint : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    fs::create_directories(root_);
    write_tokens("train.tok", 3);
    write_tokens("val.tok", 7);
  }

  void write_tokens(const std::string& name, int64_t factor) const {
    auto writer = TokenFileWriter::create((root_ / name).string(), 64, 1);
    std::vector<int32_t> tokens(150);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto number = int64_t(t);
      tokens[t] = int32_t(number % 3 == 0 ? 5 : (number * number * factor) % 61);
    }
    ASSERT_TRUE(writer.ok() && writer->append(tokens).ok() && writer->finish({}).ok());
  }

  RunConfig run_of(int64_t steps) const {
    RunConfig config = tiny_run(ComputeChoice::Fp32, steps);
    config.data.source = DataSource::Files;
    config.data.train = (root_ / "train.tok").string();
    config.data.val = (root_ / "val.tok").string();
    config.batch.global_sequences = 2;
    config.optim.lr = 1e-2;
    config.run.eval_every = 5;
    config.run.eval_sequences = 4;
    config.checkpoint.every = 10;
    config.checkpoint.keep = 1;
    return config;
  }

  struct Outcome {
    Result<SessionResult> result = Error{};
    std::vector<EvalReport> evals;
    std::vector<std::string> messages;

    bool tells(const std::string& part) const {
      return std::ranges::any_of(messages, [&](const std::string& message) {
        return message.find(part) != std::string::npos;
      });
    }
  };
  Outcome outcome_of(const RunConfig& config, const std::string& folder,
                     ResumeMode resume = ResumeMode::Fresh) const {
    class Observer : public RunObserver {
     public:
      explicit Observer(Outcome& outcome) : outcome_(outcome) {}
      void on_eval(const EvalReport& report) override { outcome_.evals.push_back(report); }
      void on_message(std::string_view text) override { outcome_.messages.emplace_back(text); }

     private:
      Outcome& outcome_;
    };
    Outcome outcome;
    Observer observer(outcome);
    const std::atomic<int> no_signals = 0;
    HostFacts host;
    host.num_cores = 2;
    outcome.result = run_session({.config = config,
                                  .out_dir = (root_ / folder).string(),
                                  .resume = resume,
                                  .host = host,
                                  .hardware = hardware_,
                                  .stop_signals = no_signals,
                                  .observers = {&observer}});
    EXPECT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    if (outcome.result.ok()) outcome.result->locks.clear();  // another run may take the folder
    return outcome;
  }

  std::set<int64_t> steps_in(const std::string& folder) const {
    std::set<int64_t> steps;
    for (const auto& entry : fs::directory_iterator(root_ / folder / "checkpoints")) {
      steps.insert(step_of_folder_name(entry.path().filename().string()));
    }
    return steps;
  }
  const EvalReport& best_of(const std::vector<EvalReport>& evals) const {
    return *std::ranges::min_element(evals, {}, &EvalReport::val_loss);
  }
  // The best checkpoint of the folder has the lowest of these validation losses.
  void expect_best(const std::string& folder, const std::vector<EvalReport>& evals) const {
    const auto found = find_checkpoint((root_ / folder / "best").string());
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->info().step, best_of(evals).step);
    EXPECT_EQ(validation_loss_of(found->info()), best_of(evals).val_loss);
  }
};

TEST_F(BestCheckpoint, StaysBesideTheNewestOnEveryLayout) {
  std::vector<EvalReport> first;
  for (const auto& [name, dp, pp] :
       {std::tuple("one", 1, 1), std::tuple("dp", 2, 1), std::tuple("pp", 1, 2)}) {
    SCOPED_TRACE(name);
    RunConfig config = run_of(60);
    config.run.reproducible = Reproducible::Layout;
    config.parallel.dp = dp;
    config.parallel.pp = pp;
    const Outcome outcome = outcome_of(config, name);
    const int64_t best = best_of(outcome.evals).step;
    EXPECT_GT(best, 0);
    EXPECT_LT(best, 50) << "the data should be known by heart";
    expect_best(name, outcome.evals);
    EXPECT_EQ(steps_in(name), (std::set<int64_t>{best, 60}));
    EXPECT_TRUE(outcome.tells("rises"));
    EXPECT_EQ(outcome.evals.back().best_step, best);
    if (first.empty()) first = outcome.evals;
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(outcome.evals[i].val_loss, first[i].val_loss);
    }
  }
}

TEST_F(BestCheckpoint, IsKnownAfterAResume) {
  const Outcome whole = outcome_of(run_of(60), "whole");
  RunConfig config = run_of(60);
  std::vector<EvalReport> evals;
  for (const int64_t stop : {17, 33, 52, 0}) {
    config.run.stop_after = stop;
    const Outcome part = outcome_of(config, "parts", ResumeMode::Auto);
    evals.insert(evals.end(), part.evals.begin(), part.evals.end());
    expect_best("parts", evals);
  }
  ASSERT_EQ(evals.size(), whole.evals.size());
  for (size_t i = 0; i < evals.size(); ++i) {
    EXPECT_EQ(evals[i].best_step, whole.evals[i].best_step);
    EXPECT_EQ(evals[i].best_loss, whole.evals[i].best_loss);
  }
}

TEST_F(BestCheckpoint, OnlyTheNewestStayIfItIsSwitchedOff) {
  for (const BestChoice off : {BestChoice::None, BestChoice::Off}) {
    RunConfig config = run_of(60);
    config.checkpoint.best = off;
    const std::string folder = off == BestChoice::None ? "none" : "empty";
    outcome_of(config, folder);
    EXPECT_EQ(steps_in(folder), (std::set<int64_t>{60}));
  }
}

TEST_F(BestCheckpoint, ARunThatSavesNothingSavesNoBest) {
  RunConfig config = run_of(20);
  config.checkpoint.every = 0;
  config.checkpoint.at_end = false;
  outcome_of(config, "run");
  EXPECT_FALSE(fs::exists(root_ / "run" / "checkpoints"));
}

TEST_F(BestCheckpoint, PatienceEndsTheRunAndAResumeLeavesItAsItIs) {
  RunConfig config = run_of(200);
  config.run.stop_patience = 3;
  const Outcome outcome = outcome_of(config, "run");
  EXPECT_EQ(outcome.result->end, TrainEnd::Settled);
  const int64_t best = best_of(outcome.evals).step, end = outcome.result->position.step;
  EXPECT_EQ(end, best + 3 * config.run.eval_every);
  EXPECT_TRUE(outcome.tells("run.stop_patience = 3"));
  EXPECT_EQ(steps_in("run"), (std::set<int64_t>{best, end}));

  const Outcome again = outcome_of(config, "run", ResumeMode::Auto);
  EXPECT_EQ(again.result->position.step, end);
  EXPECT_TRUE(again.evals.empty());
  EXPECT_TRUE(again.tells("raise it to train longer"));

  config.run.stop_patience = 5;
  const Outcome further = outcome_of(config, "run", ResumeMode::Auto);
  EXPECT_EQ(further.result->position.step, best + 5 * config.run.eval_every);
}

}  // namespace
}  // namespace trireme
