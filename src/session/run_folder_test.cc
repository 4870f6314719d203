#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/checkpoint_index.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Changes the disk in the middle of a run.
class Vandal : public RunObserver {
 public:
  Vandal(int64_t step, std::function<void()> act) : step_(step), act_(std::move(act)) {}
  void on_step(const StepReport& report) override {
    last_step = report.step;
    if (report.step == step_) act_();
  }
  void on_checkpoint(const CheckpointReport& report) override { saved.push_back(report.path); }
  int64_t last_step = 0;
  std::vector<std::string> saved;

 private:
  int64_t step_;
  std::function<void()> act_;
};

class RunFolderTest : public SessionTest {
 protected:
  static RunConfig saving_run(int dp = 1) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 8);
    config.batch.global_sequences = 2;
    config.parallel.dp = dp;
    config.run.reproducible = Reproducible::Layout;
    config.checkpoint.every = 2;
    config.checkpoint.keep = 2;
    return config;
  }
  std::set<std::string> checkpoints(const std::string& folder) const {
    std::set<std::string> names;
    if (!fs::exists(path(folder + "/checkpoints"))) return names;
    for (const auto& entry : fs::directory_iterator(path(folder + "/checkpoints"))) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  std::string shard_of(const std::string& checkpoint) const {
    for (const auto& entry : fs::directory_iterator(path(checkpoint))) {
      if (entry.path().extension() == ".safetensors") return entry.path().string();
    }
    return "";
  }
};

// Removes a folder at one moment. A save that still writes into it must not make this fail.
void vanish(const std::string& folder) {
  const std::string gone = folder + ".gone";
  fs::rename(folder, gone);
  std::error_code error;
  do {
    fs::remove_all(gone, error);
  } while (fs::exists(gone));
}

TEST_F(RunFolderTest, ADamagedCheckpointPushesOutNoGoodOneAndIsTold) {
  RunConfig config = saving_run();
  config.checkpoint.asynchronous = false;  // the checkpoint of step 4 exists when step 5 ends
  config.run.steps = 6;
  Vandal vandal(5, [&] {
    const std::string shard = shard_of("run/checkpoints/step-000004");
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(int64_t(fs::file_size(shard)) / 2);
    file.write("damage", 6);
  });
  Outcome outcome = outcome_of(config, "run", ResumeMode::Fresh, &vandal);
  ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
  EXPECT_EQ(checkpoints("run"),
            (std::set<std::string>{"step-000002", "step-000004", "step-000006"}));
  EXPECT_NE(outcome.messages.find("run/checkpoints/step-000004 is damaged"), std::string::npos)
      << outcome.messages;
  EXPECT_NE(outcome.messages.find("it does not count towards checkpoint.keep"), std::string::npos)
      << outcome.messages;
  EXPECT_EQ(outcome.messages.find("/proc/"), std::string::npos) << outcome.messages;
  // Two intact checkpoints after it, the damaged one is removed.
  outcome.result->locks.clear();
  config.run.steps = 10;
  ASSERT_TRUE(outcome_of(config, "run", ResumeMode::Auto).result.ok());
  EXPECT_EQ(checkpoints("run"), (std::set<std::string>{"step-000008", "step-000010"}));
}

TEST_F(RunFolderTest, MilestonesStay) {
  RunConfig config = saving_run();
  config.run.steps = 16;
  config.checkpoint.keep = 1;
  config.checkpoint.keep_every = 6;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  EXPECT_EQ(checkpoints("run"),
            (std::set<std::string>{"step-000006", "step-000012", "step-000016"}));
}

// The folder is moved, removed, or replaced. It is never recreated, and the loss is reported at
// once.
TEST_F(RunFolderTest, ALostFolderEndsTheRunThatHasNoOther) {
  const std::vector<std::pair<std::string, std::function<void()>>> losses = {
      {"moved", [&] { fs::rename(path("moved"), path("elsewhere")); }},
      {"removed", [&] { vanish(path("removed")); }},
      {"replaced",
       [&] {
         vanish(path("replaced"));
         fs::create_directory(path("replaced"));
       }},
  };
  for (const auto& [name, lose] : losses) {
    for (const int dp : {1, 2}) {
      SCOPED_TRACE(name + " dp " + std::to_string(dp));
      fs::remove_all(root_);
      Vandal vandal(3, lose);
      const Outcome outcome = outcome_of(saving_run(dp), name, ResumeMode::Fresh, &vandal);
      ASSERT_FALSE(outcome.result.ok());
      EXPECT_EQ(outcome.result.error().kind, ErrorKind::Damaged);
      EXPECT_NE(outcome.result.error().message.find("moved or removed"), std::string::npos)
          << outcome.result.error().message;
      EXPECT_NE(outcome.messages.find("moved or removed while the run uses it"), std::string::npos);
      EXPECT_LE(vandal.last_step, 5);
      EXPECT_TRUE(!fs::exists(path(name)) || fs::is_empty(path(name)));
    }
  }
}

TEST_F(RunFolderTest, ALostFolderIsReplacedByTheFallbackAndResumingFindsIt) {
  const std::vector<StepReport> whole = reports_of(saving_run(), "whole");
  for (const int dp : {1, 2}) {
    SCOPED_TRACE(dp);
    fs::remove_all(path("run"));
    fs::remove_all(path("fallback"));
    RunConfig config = saving_run(dp);
    config.checkpoint.fallback_folder = path("fallback");
    config.run.stop_after = 7;
    Vandal vandal(3, [&] { vanish(path("run")); });
    Outcome outcome = outcome_of(config, "run", ResumeMode::Fresh, &vandal);
    ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    EXPECT_EQ(outcome.result->end, TrainEnd::Stopped);
    EXPECT_FALSE(fs::exists(path("run")));
    EXPECT_NE(outcome.messages.find("checkpoints go to " + path("fallback")), std::string::npos);
    EXPECT_EQ(checkpoints("fallback"), (std::set<std::string>{"step-000006", "step-000007"}));

    outcome.result->locks.clear();
    config.run.stop_after = 0;
    const std::vector<StepReport> rest = reports_of(config, "run", ResumeMode::Auto);
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest.back().step, 8);
    EXPECT_EQ(rest.back().loss, whole.back().loss);
    EXPECT_EQ(checkpoints("run"), (std::set<std::string>{"step-000008"}));
  }
}

TEST_F(RunFolderTest, ASaveThatFailsGoesToTheFallback) {
  RunConfig config = saving_run();
  config.checkpoint.fallback_folder = path("fallback");
  Vandal vandal(3, [&] {
    vanish(path("run/checkpoints"));
    std::ofstream(path("run/checkpoints")) << "in the way";
  });
  const Outcome outcome = outcome_of(config, "run", ResumeMode::Fresh, &vandal);
  ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
  EXPECT_NE(outcome.messages.find("step 4 is saved in checkpoint.fallback_folder"),
            std::string::npos)
      << outcome.messages;
  EXPECT_EQ(checkpoints("fallback"), (std::set<std::string>{"step-000006", "step-000008"}));
  config.checkpoint.fallback_folder = path("other");
  const Outcome same = outcome_of(config, "other");
  ASSERT_FALSE(same.result.ok());
  EXPECT_EQ(same.result.error().kind, ErrorKind::Usage);
}

// The save of step 4 fails, once with ranks that have nothing to write; that of step 6 succeeds.
TEST_F(RunFolderTest, ASaveBesideTrainingThatFailsIsToldAndTheNextOneTriesAgain) {
  const std::vector<StepReport> whole = reports_of(saving_run(), "whole");
  for (const int dp : {1, 2}) {
    SCOPED_TRACE(dp);
    const std::string run = fmt::format("run-{}", dp);
    const fs::path roots = path(run + "/checkpoints"), aside = path(run + "/aside");
    class Thief : public RunObserver {
     public:
      explicit Thief(std::function<void(int64_t)> act) : act_(std::move(act)) {}
      void on_step(const StepReport& report) override {
        losses.push_back(report.loss);
        act_(report.step);
      }
      std::vector<double> losses;

     private:
      std::function<void(int64_t)> act_;
    } thief([&](int64_t step) {
      if (step == 4) {  // before the save of step 4 begins
        fs::rename(roots, aside);
        std::ofstream(roots) << "in the way";
      } else if (step == 5) {
        fs::remove(roots);
        fs::rename(aside, roots);
      }
    });
    RunConfig config = saving_run(dp);
    config.checkpoint.keep = 0;
    const Outcome outcome = outcome_of(config, run, ResumeMode::Fresh, &thief);
    ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    EXPECT_NE(outcome.messages.find("step 4 has no checkpoint: " + roots.string()),
              std::string::npos)
        << outcome.messages;
    const std::set<std::string> names = checkpoints(run);
    EXPECT_TRUE(names.contains("step-000006") && names.contains("step-000008"));
    EXPECT_FALSE(names.contains("step-000004"));
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(thief.losses[i], whole[i].loss) << i;
    const auto summary = parse_json(read_text_file(path(run + "/summary.json")).value());
    EXPECT_EQ(summary.at("failed_saves"), 4 - int(names.size()));
    EXPECT_EQ(summary.at("saves"), int(names.size()));
  }
}

// checkpoint.at_end = false, so that the save of step 6 is the last one.
TEST_F(RunFolderTest, ARunWhoseLastSaveFailsEndsWithItsError) {
  for (const bool asynchronous : {false, true}) {
    SCOPED_TRACE(asynchronous);
    const std::string run = fmt::format("run-{}", asynchronous);
    RunConfig config = saving_run();
    config.run.steps = 7;
    config.checkpoint.at_end = false;
    config.checkpoint.asynchronous = asynchronous;
    Vandal vandal(6, [&] {
      fs::rename(path(run + "/checkpoints"), path(run + "/aside"));
      std::ofstream(path(run + "/checkpoints")) << "in the way";
    });
    const Outcome outcome = outcome_of(config, run, ResumeMode::Fresh, &vandal);
    ASSERT_FALSE(outcome.result.ok());
    EXPECT_EQ(outcome.result.error().kind, ErrorKind::Damaged);
    EXPECT_EQ(vandal.last_step, asynchronous ? 7 : 6);
  }
}

TEST_F(RunFolderTest, AStartRemovesWhatAKilledRunHasLeft) {
  RunConfig config = saving_run();
  config.run.stop_after = 4;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  for (const char* name : {"plan.json.tmp-1", "checkpoints/step-000006.tmp-1-old/shard",
                           "checkpoints/step-000008.tmp-2/shard", "notes.tmp"}) {
    fs::create_directories(fs::path(path("run/") + name).parent_path());
    std::ofstream(path("run/") + name) << "left";
  }
  config.run.stop_after = 0;
  const Outcome outcome = outcome_of(config, "run", ResumeMode::Auto);
  ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
  EXPECT_NE(outcome.messages.find("removed files that a killed run has left"), std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(path("run"))) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
  EXPECT_TRUE(fs::exists(path("run/notes.tmp")));
}

// A run resumes if only its checkpoints are left.
TEST_F(RunFolderTest, ARunResumesFromCheckpointsAlone) {
  const std::vector<StepReport> whole = reports_of(saving_run(), "whole");
  RunConfig config = saving_run();
  config.run.stop_after = 5;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  for (const auto& entry : fs::directory_iterator(path("run"))) {
    if (entry.path().filename() != "checkpoints") fs::remove_all(entry.path());
  }
  config.run.stop_after = 0;
  const std::vector<StepReport> rest = reports_of(config, "run", ResumeMode::Auto);
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest.back().loss, whole.back().loss);
}

// A report that cannot be written is mentioned, and the run ends normally.
TEST_F(RunFolderTest, AMissingReportFailsNoRun) {
  RunConfig config = saving_run();
  Vandal vandal(3, [&] {
    for (const char* name : {"summary.json", "ranks.json", "trace.rank0.json"}) {
      fs::create_directories(path("run/") + name + "/in the way");
    }
  });
  const Outcome outcome = outcome_of(config, "run", ResumeMode::Fresh, &vandal);
  ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
  for (const char* name : {"summary.json", "ranks.json", "trace.rank0.json"}) {
    EXPECT_NE(
        outcome.messages.find(std::string("a report could not be written: ") + path("run/") + name),
        std::string::npos)
        << outcome.messages;
  }
}

}  // namespace
}  // namespace trireme
