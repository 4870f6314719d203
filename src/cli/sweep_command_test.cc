#include "cli/sweep_command.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_fixture.h"
#include "sweep/trial_curve.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

class SweepCommand : public CommandTest {
 protected:
  static Words sweep(const std::string& out, const Words& more) {
    Words words = {"sweep", "tiny.toml", "--out", out, "--set", "run.threads_per_rank=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static Json record(const std::string& folder) {
    return parse_json(read_text_file(folder + "/sweep.json").value());
  }

  // The trials of a sweep in which the third one is hopeless and the fourth one diverges.
  static Words mixed() {
    return {"--over", "optim.lr=3e-3,1e-3,1e-7,1e30,2e-3",
            "--set",  "run.steps=40",
            "--set",  "run.eval_every=10"};
  }

  // Runs a sweep, and calls `action` once `file` has more than `lines` lines.
  static CommandAnswer answer_with(const Words& words, const std::string& file, size_t lines,
                                   const std::function<void()>& action) {
    std::atomic<bool> is_over{false};
    std::thread watcher([&] {
      while (!is_over) {
        std::ifstream metrics(file);
        std::string line;
        size_t count = 0;
        while (std::getline(metrics, line)) ++count;
        if (count > lines) return action();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    CommandAnswer answer = answer_of(words);
    is_over = true;
    watcher.join();
    return answer;
  }
  static CommandAnswer interrupted(const Words& words, const std::string& file, size_t lines) {
    return answer_with(words, file, lines, [] { ::kill(::getpid(), SIGINT); });
  }

  // The weights and the state of the optimizer of a checkpoint, by file.
  static std::map<std::string, std::string> tensors(const std::string& checkpoint) {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
      if (entry.path().extension() != ".safetensors") continue;
      files[entry.path().filename()] = read_text_file(entry.path()).value();
    }
    return files;
  }
};

TEST_F(SweepCommand, TrialsHaveTheNumbersOfTrainBitByBit) {
  succeed(sweep("swept", {"--over", "optim.lr=1e-3..4e-3:log2", "--over", "optim.name=adamw,sgd",
                          "--set", "run.steps=8", "--no-early-stop"}));
  const Json trials = record("swept")["trials"];
  ASSERT_EQ(trials.size(), 4u);
  for (const Json& trial : trials) {
    const std::string name = trial["trial"];
    EXPECT_EQ(trial["state"], "finished");
    EXPECT_EQ(trial["steps"], 8);
    Words words = {"train", "tiny.toml",   "--out", "alone-" + name,
                   "--set", "run.steps=8", "--set", "run.threads_per_rank=1"};
    for (const auto& [key, value] : trial["values"].items()) {
      words.insert(words.end(), {"--set", key + "=" + value.get<std::string>()});
    }
    succeed(words);
    const TrialCurve swept = read_trial_curve("swept/" + name).value();
    const TrialCurve alone = read_trial_curve("alone-" + name).value();
    EXPECT_EQ(swept.losses(), alone.losses());
    EXPECT_EQ(swept.last_step(), 8);
    const auto weights = tensors("swept/" + name + "/checkpoints/step-000008");
    EXPECT_FALSE(weights.empty());
    EXPECT_TRUE(weights == tensors("alone-" + name + "/checkpoints/step-000008")) << name;
    EXPECT_EQ(trial["val_loss"].get<double>(), alone.best_validation(8).loss);
    EXPECT_TRUE(fs::exists("swept/" + name + "/report.html"));
  }
  EXPECT_TRUE(fs::exists("swept/sweep.html"));
}

TEST_F(SweepCommand, BrokenOffAnywhereAndResumedItIsTheSameSweep) {
  const std::string table = succeed(sweep("whole", mixed()));
  const Json whole = record("whole");
  const std::string states[] = {"finished", "finished", "stopped", "diverged", "finished"};
  for (size_t i = 0; i < std::size(states); ++i) {
    EXPECT_EQ(whole["trials"][i]["state"], states[i]) << whole["trials"][i];
  }
  EXPECT_LT(whole["trials"][2]["steps"], 40);
  EXPECT_GE(whole["trials"][2]["steps"], 10);  // the grace
  EXPECT_TRUE(whole["trials"][3]["loss"].is_null());
  EXPECT_NE(table.find("stopped"), std::string::npos);
  EXPECT_NE(table.find("diverged"), std::string::npos);
  EXPECT_NE(table.find("best: trireme train tiny.toml"), std::string::npos);

  int num_interrupted = 0;
  for (const auto& [trial, lines] : {std::pair{"trial-001", 20},
                                     {"trial-002", 3},
                                     {"trial-003", 4},
                                     {"trial-003", 11},
                                     {"trial-005", 30}}) {
    const std::string file = std::string("parts/") + trial + "/metrics.jsonl";
    const CommandAnswer answer = interrupted(sweep("parts", mixed()), file, size_t(lines));
    if (answer.exit_code == 130) ++num_interrupted;
    ASSERT_TRUE(answer.exit_code == 130 || answer.exit_code == 0) << answer.err;
  }
  EXPECT_GE(num_interrupted, 2);
  EXPECT_EQ(succeed(sweep("parts", mixed())), table);
  EXPECT_EQ(read_text_file("parts/sweep.json").value(), read_text_file("whole/sweep.json").value());
  for (const char* trial : {"/trial-001", "/trial-002", "/trial-005"}) {
    EXPECT_EQ(read_trial_curve(std::string("parts") + trial).value().losses(),
              read_trial_curve(std::string("whole") + trial).value().losses());
  }
  // Whoever asks again gets the answer at once, and no trial runs again.
  const auto written = fs::last_write_time("whole/trial-001/metrics.jsonl");
  EXPECT_EQ(succeed(sweep("whole", mixed())), table);
  EXPECT_EQ(fs::last_write_time("whole/trial-001/metrics.jsonl"), written);
}

// As if the process was killed between the save of a trial and that of sweep.json.
TEST_F(SweepCommand, WhatATrialHasRecordedDecidesWithoutRunningAgain) {
  const Words words = {"--over", "optim.lr=3e-3,1e-3,1e-7", "--set", "run.steps=20"};
  succeed(sweep("swept", words));
  const std::string good = read_text_file("swept/sweep.json").value();
  // A file in the way of the third trial, which therefore has no result yet.
  const CommandAnswer cut = answer_with(sweep("cut", words), "cut/trial-001/metrics.jsonl", 0,
                                        [] { std::ofstream("cut/trial-003") << "in the way"; });
  ASSERT_EQ(cut.exit_code, 5) << cut.err;
  fs::remove("cut/trial-003");
  fs::copy("swept/trial-003", "cut/trial-003", fs::copy_options::recursive);
  const auto written = fs::last_write_time("cut/trial-003/metrics.jsonl");
  succeed(sweep("cut", words));
  EXPECT_EQ(fs::last_write_time("cut/trial-003/metrics.jsonl"), written);
  EXPECT_EQ(read_text_file("cut/sweep.json").value(), good);
}

TEST_F(SweepCommand, WithoutEarlyStopEveryTrialTrainsToItsEnd) {
  succeed(sweep("swept", {"--over", "optim.lr=3e-3,1e-3,1e-7,1e30,2e-3", "--set", "run.steps=12",
                          "--no-early-stop"}));
  for (const size_t i : {0, 1, 2, 4}) {
    EXPECT_EQ(record("swept")["trials"][i]["steps"], 12);
    EXPECT_EQ(record("swept")["trials"][i]["state"], "finished");
  }
}

TEST_F(SweepCommand, TrialsOfDifferentLengthsAreNotCompared) {
  const CommandAnswer answer =
      answer_of(sweep("swept", {"--over", "run.steps=4,6,8", "--set", "optim.lr=1e-3"}));
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_NE(answer.err.find("no trial is stopped early"), std::string::npos) << answer.err;
  EXPECT_EQ(record("swept")["sweep"]["early_stop"], false);
  EXPECT_EQ(record("swept")["trials"][2]["steps"], 8);
}

TEST_F(SweepCommand, RandomPointsFollowFromTheSeed) {
  const Words words = {"--over", "optim.lr=1e-4..1e-2:log", "--random", "2", "--set", "run.steps=2",
                       "--json"};
  const std::string json = succeed(sweep("one", words));
  EXPECT_EQ(json, read_text_file("one/sweep.json").value());
  EXPECT_EQ(succeed(sweep("two", words)), json);
}

// Every trial of a fine-tuning is the run of train --resume, and the sweep belongs to its
// checkpoint.
TEST_F(SweepCommand, TrialsOfAFineTuningBeginWithTheCheckpoint) {
  succeed({"train", "tiny.toml", "--set", "run.steps=3", "--set", "run.threads_per_rank=1", "--out",
           "base"});
  succeed({"checkpoint", "export", "base", "--format", "hf", "--out", "hf"});
  succeed({"checkpoint", "import", "hf", "--out", "ck", "--trainable"});
  const Words points = {"--over", "optim.lr=1e-3,3e-3", "--set", "run.steps=3"};
  const auto from = [&](const std::string& checkpoint) {
    Words words = points;
    words.insert(words.end(), {"--resume", checkpoint});
    return words;
  };
  const CommandAnswer of_a_run = answer_of(sweep("tuned", from("base")));
  EXPECT_EQ(of_a_run.exit_code, 2);
  EXPECT_NE(of_a_run.err.find("step 3 of a run"), std::string::npos) << of_a_run.err;
  EXPECT_EQ(answer_of(sweep("tuned", from("missing"))).exit_code, 2);
  EXPECT_FALSE(fs::exists("tuned"));
  succeed(sweep("tuned", from("ck")));
  EXPECT_EQ(record("tuned")["sweep"]["resume"], "ck");
  succeed({"train", "tiny.toml", "--resume", "ck", "--set", "run.threads_per_rank=1", "--set",
           "run.steps=3", "--set", "optim.lr=3e-3", "--out", "alone"});
  const auto alone = tensors("alone/checkpoints/step-000003");
  EXPECT_FALSE(alone.empty());
  EXPECT_TRUE(tensors("tuned/trial-002/checkpoints/step-000003") == alone);
  EXPECT_FALSE(tensors("base/checkpoints/step-000003") == alone);
  const CommandAnswer other = answer_of(sweep("tuned", points));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("it is about --resume ck"), std::string::npos) << other.err;
}

// Adapters may begin with a checkpoint of any step: its trials count from there.
TEST_F(SweepCommand, AdaptersOfALaterCheckpointAreComparedFromItsStep) {
  succeed({"train", "tiny.toml", "--set", "run.steps=3", "--set", "run.threads_per_rank=1", "--out",
           "base"});
  const auto from = [&](const std::string& steps) {
    return sweep("tuned", {"--over", "optim.lr=1e-3,3e-3", "--resume", "base", "--set",
                           "model.lora_rank=2", "--set", "run.steps=" + steps});
  };
  const CommandAnswer nothing_left = answer_of(from("3"));
  EXPECT_EQ(nothing_left.exit_code, 2);
  EXPECT_NE(nothing_left.err.find("run.steps to 4 or more"), std::string::npos) << nothing_left.err;
  EXPECT_FALSE(fs::exists("tuned"));
  succeed(from("6"));
  const Json trials = record("tuned")["trials"];
  ASSERT_EQ(trials.size(), 2u);
  for (const Json& trial : trials) {
    EXPECT_EQ(trial["state"], "finished") << trial;
    EXPECT_EQ(trial["steps"], 6);
    EXPECT_TRUE(trial["loss"].is_number());
  }
}

TEST_F(SweepCommand, NothingRunsIfAnythingIsWrong) {
  const auto refused = [&](Words more, const std::string& part, int code = 2) {
    const CommandAnswer answer = answer_of(sweep("new", more));
    EXPECT_EQ(answer.exit_code, code) << answer.err;
    EXPECT_NE(answer.err.find(part), std::string::npos) << answer.err;
    EXPECT_FALSE(fs::exists("new")) << part;
  };
  refused({}, "nothing is swept");
  refused({"--over", "optim.lrr=1,2"}, "did you mean optim.lr?");
  refused({"--over", "optim.lr=0..1:log5"}, "a log range has only numbers above 0");
  refused({"--over", "optim.lr=1e-3,-1"},
          "trial-002: --over optim.lr=1e-3,-1 (optim.lr=-1): optim.lr = -1.0 ");
  refused({"--over", "optim.name=adamw,adam"}, "optim.name = \"adam\" is unknown");
  refused({"--over", "model.heads=2,3"}, "trial-002: ");
  refused({"--over", "batch.micro_sequences=1,3"}, "trial-002: ");
  refused({"--over", "optim.lr=1..2:lin50", "--over", "run.seed=1..50:lin50"}, "--random N");
  refused({"--over", "optim.lr=1,2", "--set", "optim.lr=3"}, "leave one of them out");
  refused({"--over", "optim.lr=1,2", "--random", "0"}, "1 to 1000 trials");
  refused({"--over", "optim.lr=1,2", "--grace", "1.5"}, "between 0 and 1");
  refused({"--over", "optim.lr=1,2", "--steps", "5"}, "--set run.steps=N");
  refused({"--over", "optim.lr=1,2", "--lr-range", "1e-6..1"}, "one after the other");
  refused({"--lr-range", "1..1e-6"}, "the lower one first");
  refused({"--lr-range", "1e-6..1", "--steps", "0"}, "expected 1 or more");
  refused({"--lr-range", "1e-6..1", "--random", "3"}, "leave it out");
  refused({"--over", "optim.lr=1,2", "--set", "run.stop_after=3"}, "run.stop_after = 3");
  refused({"--over", "optim.lr=1,2", "--set", "run.backend=tcp"}, "needs a launcher");
  refused({"--over", "optim.lr=1,2", "--set", "checkpoint.fallback_folder=x"}, "share it");
  refused({"--over", "optim.lr=1,2", "--set", "memory.limit_bytes=100000"}, "trial-001: ", 3);
}

TEST_F(SweepCommand, AFolderBelongsToOneSweep) {
  const Words words = {"--over", "optim.lr=1e-3,2e-3", "--set", "run.steps=2"};
  succeed(sweep("swept", words));
  const auto refused = [&](const std::string& out, const Words& more, const std::string& part,
                           int code = 2) {
    const CommandAnswer answer = answer_of(sweep(out, more));
    EXPECT_EQ(answer.exit_code, code) << answer.err;
    EXPECT_NE(answer.err.find(part), std::string::npos) << answer.err;
  };
  refused("swept", {"--over", "optim.lr=1e-3,3e-3", "--set", "run.steps=2"},
          "it is about --over optim.lr=1e-3,2e-3");
  refused("swept", {"--over", "optim.lr=1e-3,2e-3", "--set", "run.steps=3"},
          "run.steps was 2 and is 3 now");
  refused("data", words, "is not empty and holds no sweep");
  std::ofstream("swept/sweep.json", std::ios::app) << " ";
  refused("swept", words, "sweep.json is damaged", 4);
}

TEST_F(SweepCommand, ARangeTestRaisesTheRateAndSuggestsOne) {
  const std::string text = succeed(sweep("range", {"--lr-range", "1e-5..1e3", "--steps", "60"}));
  const TrialCurve curve = read_trial_curve("range/trial-001").value();
  ASSERT_GE(curve.last_step(), 20);
  EXPECT_EQ(curve.lrs()[0], 1e-5);
  for (size_t i = 1; i < curve.lrs().size(); ++i) {
    EXPECT_NEAR(curve.lrs()[i] / curve.lrs()[i - 1], std::pow(1e8, 1.0 / 59.0), 1e-9);
  }
  const Json json = record("range");
  EXPECT_EQ(json["trials"][0]["state"], "finished");
  EXPECT_GT(json["finding"]["diverged_lr"].get<double>(), 1e-3);
  EXPECT_GT(json["finding"]["suggested_lr"].get<double>(), 1e-5);
  EXPECT_NE(text.find("--set optim.lr="), std::string::npos) << text;
  EXPECT_TRUE(fs::exists("range/sweep.html"));
  EXPECT_EQ(succeed(sweep("range", {"--lr-range", "1e-5..1e3", "--steps", "60"})), text);
}

// A file stands where the folder of a trial should be.
TEST_F(SweepCommand, AFailedTrialIsTriedAgainAndTwoInARowEndTheSweep) {
  const Words words = sweep("swept", {"--over", "optim.lr=1e-3,2e-3,3e-3,4e-3", "--set",
                                      "run.steps=8", "--no-early-stop"});
  const auto block = [](const char* path) { std::ofstream(path) << "in the way"; };
  const CommandAnswer twice = answer_with(words, "swept/trial-001/metrics.jsonl", 0, [&] {
    block("swept/trial-002");
    block("swept/trial-003");
  });
  EXPECT_EQ(twice.exit_code, 2) << twice.err;
  EXPECT_NE(twice.err.find("trial-003 is a file"), std::string::npos) << twice.err;
  EXPECT_EQ(record("swept")["trials"][3]["state"], "waiting");

  fs::remove("swept/trial-003");
  const CommandAnswer once = answer_of(words);
  EXPECT_EQ(once.exit_code, 5) << once.err;
  EXPECT_NE(once.err.find("1 of 4 trials have failed"), std::string::npos) << once.err;
  EXPECT_EQ(record("swept")["trials"][1]["state"], "failed");
  EXPECT_EQ(record("swept")["trials"][3]["state"], "finished");

  fs::remove("swept/trial-002");
  succeed(words);
  const Json ended = record("swept");
  for (const Json& trial : ended["trials"]) EXPECT_EQ(trial["state"], "finished");
}

TEST_F(SweepCommand, ALauncherOfRanksIsRefused) {
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err};
  io.launch.ranks = 2;
  const auto answer = run_sweep({.config = {.files = {"tiny.toml"}}, .over = {"optim.lr=1,2"}}, io);
  EXPECT_EQ(answer.error().kind, ErrorKind::Usage);
}

TEST_F(SweepCommand, IfEveryTrialDivergesTheSweepFails) {
  const CommandAnswer answer =
      answer_of(sweep("swept", {"--over", "optim.lr=1e30,2e30", "--set", "run.steps=20"}));
  EXPECT_EQ(answer.exit_code, 5) << answer.err;
  EXPECT_NE(answer.err.find("no trial has finished"), std::string::npos) << answer.err;
  EXPECT_TRUE(record("swept")["best"].is_null());
}

}  // namespace
}  // namespace trireme
