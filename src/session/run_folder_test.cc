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

constexpr const char* kTrainEvent = "{\"event\":\"train\"";

std::vector<double> losses_of(const std::vector<StepReport>& reports) {
  std::vector<double> losses;
  for (const StepReport& report : reports) losses.push_back(report.loss);
  return losses;
}

// Changes the disk in the middle of a run.
class Vandal : public RunObserver {
 public:
  Vandal(int64_t step, std::function<void()> act) : step_(step), act_(std::move(act)) {}
  void on_step(const StepReport& report) override {
    last_step = report.step;
    losses.push_back(report.loss);
    if (report.step == step_) act_();
    if (next != nullptr) next->on_step(report);
  }
  void on_checkpoint(const CheckpointReport& report) override { saved.push_back(report.path); }
  int64_t last_step = 0;
  std::vector<double> losses;
  std::vector<std::string> saved;
  Vandal* next = nullptr;  // acts after this one

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
  // Number of steps in metrics.jsonl.
  size_t recorded_steps(const std::string& folder) const {
    const std::string text = read_text_file(path(folder + "/metrics.jsonl")).value();
    size_t count = 0;
    for (size_t at = text.find(kTrainEvent); at != std::string::npos;) {
      ++count;
      at = text.find(kTrainEvent, at + 1);
    }
    return count;
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

// The folder is moved, removed, or replaced. The run makes it again, and its files are complete but
// for the earlier checkpoints.
TEST_F(RunFolderTest, ALostFolderIsMadeAgainAndChangesNoNumber) {
  const std::vector<StepReport> whole = reports_of(saving_run(), "whole");
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
      fs::remove_all(path(name));
      fs::remove_all(path("elsewhere"));
      Vandal vandal(3, lose);
      RunConfig config = saving_run(dp);
      config.run.tensorboard = true;
      const Outcome outcome = outcome_of(config, name, ResumeMode::Fresh, &vandal);
      ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
      EXPECT_NE(outcome.messages.find("moved or removed while the run uses it; training continues "
                                      "in a new folder"),
                std::string::npos)
          << outcome.messages;
      EXPECT_EQ(vandal.losses, losses_of(whole));
      EXPECT_EQ(checkpoints(name), (std::set<std::string>{"step-000006", "step-000008"}));
      EXPECT_EQ(recorded_steps(name), whole.size());
      for (const char* file : {"config.resolved.toml", "plan.json", "summary.json"}) {
        EXPECT_TRUE(fs::exists(path(name) + "/" + file)) << file;
      }
    }
  }
}

// A file lies where the folder's parent was, from step 3 to step 6, or until the end.
TEST_F(RunFolderTest, AFolderThatCannotBeMadeAgainEndsNoRunBeforeItsLastSave) {
  const std::vector<StepReport> whole = reports_of(saving_run(), "whole");
  const std::string parent = path("parent");
  for (const bool asynchronous : {false, true}) {
    for (const int64_t step_back : {6, 100}) {
      SCOPED_TRACE(fmt::format("asynchronous {}, room from step {} on", asynchronous, step_back));
      fs::remove_all(parent);
      fs::remove_all(path("gone"));
      Vandal second(step_back, [&] { fs::remove(parent); });
      Vandal first(3, [&] {
        fs::rename(parent, path("gone"));
        std::ofstream(parent) << "in the way";
      });
      first.next = &second;
      RunConfig config = saving_run();
      config.checkpoint.asynchronous = asynchronous;
      const Outcome outcome = outcome_of(config, "parent/run", ResumeMode::Fresh, &first);
      EXPECT_NE(outcome.messages.find("cannot be made again"), std::string::npos)
          << outcome.messages;
      EXPECT_NE(outcome.messages.find("step 4 has no checkpoint"), std::string::npos)
          << outcome.messages;
      EXPECT_EQ(first.losses, losses_of(whole));
      if (step_back < 8) {
        ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
        EXPECT_NE(outcome.messages.find("training continues in a new folder"), std::string::npos);
        EXPECT_EQ(checkpoints("parent/run"), (std::set<std::string>{"step-000008"}));
        EXPECT_EQ(recorded_steps("parent/run"), whole.size());
      } else {
        ASSERT_FALSE(outcome.result.ok());
        EXPECT_EQ(outcome.result.error().kind, ErrorKind::Damaged);
        EXPECT_NE(outcome.result.error().message.find("moved or removed"), std::string::npos);
        EXPECT_TRUE(fs::is_regular_file(parent));
      }
    }
  }
}

// The folder comes back while nothing could be made in its place, or replaces what was made.
TEST_F(RunFolderTest, AFolderThatIsMovedBackIsUsedAgain) {
  const std::string parent = path("parent");
  for (const bool is_made : {false, true}) {
    SCOPED_TRACE(is_made);
    fs::remove_all(parent);
    Vandal second(5, [&] {
      fs::remove_all(parent);
      fs::rename(path("gone"), parent);
    });
    Vandal first(3, [&] {
      fs::rename(parent, path("gone"));
      if (!is_made) std::ofstream(parent) << "in the way";
    });
    first.next = &second;
    RunConfig config = saving_run();
    config.checkpoint.keep = 0;
    config.checkpoint.asynchronous = false;
    const Outcome outcome = outcome_of(config, "parent/run", ResumeMode::Fresh, &first);
    ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    EXPECT_NE(outcome.messages.find("parent/run is back"), std::string::npos) << outcome.messages;
    EXPECT_EQ(checkpoints("parent/run"),
              (std::set<std::string>{"step-000002", "step-000006", "step-000008"}));
    EXPECT_EQ(recorded_steps("parent/run"), 8u);
  }
}

// The run does not write into the folder of another run.
TEST_F(RunFolderTest, AnotherRunAtThePathIsLeftAlone) {
  ASSERT_TRUE(outcome_of(saving_run(), "other").result.ok());
  const std::set<std::string> before = checkpoints("other");
  Vandal vandal(3, [&] {
    vanish(path("run"));
    fs::rename(path("other"), path("run"));
  });
  const Outcome outcome = outcome_of(saving_run(), "run", ResumeMode::Fresh, &vandal);
  ASSERT_FALSE(outcome.result.ok());
  EXPECT_NE(outcome.messages.find("is now the folder of another run"), std::string::npos)
      << outcome.messages;
  EXPECT_EQ(vandal.last_step, 8);
  EXPECT_EQ(checkpoints("run"), before);
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
    EXPECT_EQ(vandal.last_step, 7);
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
