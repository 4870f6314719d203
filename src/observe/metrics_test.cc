#include "observe/metrics.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/json_text.h"
#include "nn/router_losses.h"
#include "observe/metrics_segments.h"
#include "train/expert_load.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

class Metrics : public testing::Test {
 protected:
  Metrics()
      : path_((std::filesystem::temp_directory_path() /
               ("trireme_metrics_test." + std::to_string(::getpid())))
                  .string()) {}
  ~Metrics() override { std::filesystem::remove(path_); }

  std::vector<Json> lines() const {
    std::ifstream file(path_);
    std::vector<Json> all;
    for (std::string line; std::getline(file, line);) {
      all.push_back(parse_json_or_discard(line));
      EXPECT_FALSE(all.back().is_discarded()) << line;
    }
    return all;
  }

  std::string path_;
};

StepReport step_report(int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 1.0 / (3.0 * double(step));
  report.lr = 1e-4 / 3.0;
  report.grad_norm = std::sqrt(double(step));
  report.tokens = 512;
  report.step_s = 0.25;
  report.tokens_per_s = 2048.0;
  report.mfu = 0.5;
  return report;
}

void write_steps(MetricsFile& metrics, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    metrics.on_step(step_report(step));
    metrics.on_eval({.step = step, .val_loss = 2.0, .bits_per_byte = 1.0, .seconds = 0.1});
    metrics.on_sample({.step = step, .text = "caf\xE9 \"x\"\n"});
    metrics.on_checkpoint(
        {.step = step, .path = "checkpoints/a\"b", .seconds = 0.1, .stall_s = 0.01});
  }
}

TEST_F(Metrics, EveryEventHasItsKeysAndNumbersComeBackBitwise) {
  {
    auto metrics = MetricsFile::create(path_, "\"params\":17,\"config\":{\"run\":{}}");
    ASSERT_TRUE(metrics.ok());
    write_steps(*metrics, 1, 3);
    metrics->write_failure(3, "why \"so\"");
  }
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 1u + 4u * 3u + 1u);
  for (const Json& line : all) {
    SCOPED_TRACE(json_text(line));
    EXPECT_GT(line.at("time").get<double>(), 1.7e9);
    EXPECT_TRUE(line.at("step").is_number_integer());
  }
  EXPECT_EQ(all.front()["event"], "run");
  EXPECT_EQ(all.front()["params"], 17);
  EXPECT_EQ(all.back()["event"], "failure");
  EXPECT_EQ(all.back()["cause"], "why \"so\"");
  for (int64_t step = 1; step <= 3; ++step) {
    const Json* const line = &all[size_t(1 + 4 * (step - 1))];
    const StepReport report = step_report(step);
    EXPECT_EQ(line[0]["event"], "train");
    EXPECT_EQ(line[0]["step"], step);
    EXPECT_EQ(line[0]["loss"].get<double>(), report.loss);
    EXPECT_EQ(line[0]["lr"].get<double>(), report.lr);
    EXPECT_EQ(line[0]["grad_norm"].get<double>(), report.grad_norm);
    for (const char* key : {"tokens", "step_s", "tokens_per_s", "mfu"}) {
      EXPECT_TRUE(line[0].contains(key)) << key;
    }
    EXPECT_EQ(line[1]["event"], "eval");
    EXPECT_EQ(line[1]["val_loss"], 2.0);
    EXPECT_EQ(line[2]["event"], "sample");
    EXPECT_EQ(line[2]["text"], "caf\xEF\xBF\xBD \"x\"\n");
    EXPECT_EQ(line[3]["event"], "checkpoint");
    EXPECT_EQ(line[3]["path"], "checkpoints/a\"b");
    EXPECT_EQ(line[3]["snapshot_stall_s"], 0.01);
  }
}

// Two layers of three experts; the last number of each layer counts dropped visits.
TEST_F(Metrics, AStepTellsHowEvenlyExpertsAreLoaded) {
  const int64_t loads[] = {4, 4, 4, 1, 6, 0, 6, 2};
  {
    auto metrics = MetricsFile::create(path_, "");
    ASSERT_TRUE(metrics.ok());
    metrics->on_step(step_report(1));
    StepReport report = step_report(2);
    report.expert_loads = loads;
    report.num_experts = 3;
    metrics->on_step(report);
    report.aux_loss = 1.25;
    report.z_loss = 0.1;
    report.noise_scale = 1.0 / 7.0;
    report.max_logit = 12.5;
    report.clipped_heads = 3;
    metrics->on_step(report);
  }
  const std::vector<Json> all = lines();
  EXPECT_FALSE(all[1].contains("expert_visits"));
  EXPECT_EQ(all[2].at("expert_visits"), 24);
  EXPECT_EQ(all[2].at("dropped_visits"), 3);
  EXPECT_EQ(all[2].at("expert_max_over_mean"), 1.5);
  EXPECT_EQ(all[2].at("expert_share"), parse_json("[0.41667,0.16667,0.41667]"));
  EXPECT_FALSE(all[2].contains("aux_loss"));
  EXPECT_FALSE(all[2].contains("z_loss"));
  EXPECT_EQ(all[3].at("aux_loss"), 1.25);
  EXPECT_EQ(all[3].at("z_loss"), 0.1);
  EXPECT_FALSE(all[2].contains("noise_scale"));
  EXPECT_EQ(all[3].at("noise_scale").get<double>(), 1.0 / 7.0);
  EXPECT_FALSE(all[2].contains("max_logit") || all[2].contains("clipped_heads"));
  EXPECT_EQ(all[3].at("max_logit"), 12.5);
  EXPECT_EQ(all[3].at("clipped_heads"), 3);
}

TEST(RouterLossMeans, AreOverLayersAndTokensOfWhatTheModelIsTrainedOn) {
  const int64_t unit = kRouterLossUnit;
  // The losses of a layer without experts, and of two with experts, each for four tokens.
  const int64_t losses[] = {0, 0, 8 * unit, 2 * unit, 12 * unit, 3 * unit};
  ModelSpec model;
  model.layers = 3;
  model.experts = 4;
  model.dense_layers = 1;
  EXPECT_FALSE(router_loss_means(losses, model, 4).aux);
  EXPECT_FALSE(router_loss_means(losses, model, 4).z);
  model.aux_loss = 0.01;
  model.z_loss = 0.001;
  EXPECT_EQ(router_loss_means(losses, model, 4).aux, 2.5);
  EXPECT_EQ(router_loss_means(losses, model, 4).z, 0.625);
  EXPECT_FALSE(router_loss_means({}, model, 4).aux);
}

TEST_F(Metrics, NumbersThatAreNotFiniteAreNull) {
  {
    auto metrics = MetricsFile::create(path_, "");
    ASSERT_TRUE(metrics.ok());
    for (const double value :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      StepReport report = step_report(1);
      report.loss = value;
      report.grad_norm = value;
      report.skipped = true;
      report.skipped_steps = 1;
      metrics->on_step(report);
      metrics->on_eval({.step = 1, .val_loss = value});
    }
  }
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 7u);
  for (size_t i = 1; i < all.size(); i += 2) {
    EXPECT_TRUE(all[i].at("loss").is_null());
    EXPECT_TRUE(all[i].at("grad_norm").is_null());
    EXPECT_EQ(all[i]["skipped"], true);
    EXPECT_TRUE(all[i + 1].at("val_loss").is_null());
  }
}

// Tested for every step and every place where a crash may cut the last line.
TEST_F(Metrics, ResumingCutsLinesBeyondTheLoadedStepAndALineThatACrashCut) {
  for (int64_t loaded = 0; loaded <= 4; ++loaded) {
    for (const char* cut : {"", "{", "{\"event\":\"train\",\"step\":5", "{\"event\":\"train\"}"}) {
      {
        auto metrics = MetricsFile::create(path_, "");
        ASSERT_TRUE(metrics.ok());
        write_steps(*metrics, 1, 4);
      }
      std::ofstream(path_, std::ios::app) << cut;
      {
        auto metrics = MetricsFile::resume(path_, loaded, "\"params\":17");
        ASSERT_TRUE(metrics.ok());
        write_steps(*metrics, loaded + 1, 5);
      }
      const std::vector<Json> all = lines();
      ASSERT_EQ(all.size(), 1u + 4u * 5u + 1u) << "loaded " << loaded << ", cut " << cut;
      std::vector<int64_t> steps;
      int num_restarts = 0;
      for (const Json& line : all) {
        if (line["event"] == "train") steps.push_back(line["step"]);
        num_restarts += line["event"] == "restart";
      }
      EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5}));
      EXPECT_EQ(num_restarts, 1);
      EXPECT_EQ(all[size_t(1 + 4 * loaded)]["event"], "restart");
      EXPECT_EQ(all[size_t(1 + 4 * loaded)]["step"], loaded);
    }
  }
}

class Listener : public RunObserver {
 public:
  void on_message(std::string_view message) override { messages.emplace_back(message); }
  std::vector<std::string> messages;
};

// Limits the file size of this process: writes beyond it fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(int64_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const struct rlimit limit { rlim_t(bytes), old_limit_.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  struct rlimit old_limit_ {};
  void (*old_handler_)(int) = nullptr;
};

TEST_F(Metrics, WithoutRoomLinesAreDroppedWholeAndThatIsSaidOnce) {
  Listener listener;
  auto metrics = MetricsFile::create(path_, "");
  ASSERT_TRUE(metrics.ok());
  metrics->tell_losses_to({&listener});
  metrics->on_step(step_report(1));
  const int64_t bytes = int64_t(std::filesystem::file_size(path_));
  {
    const FileSizeLimit limit(bytes + 20);  // a part of the next line still fits
    for (int64_t step = 2; step <= 4; ++step) metrics->on_step(step_report(step));
  }
  EXPECT_EQ(int64_t(std::filesystem::file_size(path_)), bytes);
  ASSERT_EQ(listener.messages.size(), 1u);
  EXPECT_NE(listener.messages[0].find(path_), std::string::npos);
  metrics->on_step(step_report(5));
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1]["step"], 1);
  EXPECT_EQ(all[2]["step"], 5);
  EXPECT_EQ(listener.messages.size(), 1u);
}

// A run that has survived a failure resumes on a full disk, which has no room for a second file.
// Here the second file would have too long a name.
TEST_F(Metrics, ResumingNeedsNoRoomForASecondFile) {
  path_ += std::string(250 - std::filesystem::path(path_).filename().string().size(), 'm');
  {
    auto metrics = MetricsFile::create(path_, "");
    ASSERT_TRUE(metrics.ok());
    for (int64_t step = 1; step <= 4; ++step) metrics->on_step(step_report(step));
  }
  EXPECT_FALSE(write_file_atomically(path_, "").ok());
  {
    auto metrics = MetricsFile::resume_after_failure(path_, 2, "");
    ASSERT_TRUE(metrics.ok());
    metrics->on_step(step_report(3));
  }
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 4u);
  for (int64_t step = 0; step < 4; ++step) EXPECT_EQ(all[size_t(step)]["step"], step);
}

// Returns the steps of the `train` lines of all parts.
std::vector<int64_t> steps_of(const std::string& path) {
  std::vector<int64_t> steps;
  std::istringstream text(read_metrics(path).value());
  for (std::string line; std::getline(text, line);) {
    const Json json = parse_json(line);
    if (json["event"] == "train") steps.push_back(json["step"]);
  }
  return steps;
}

// A full file is renamed, and a new one begins with a `run` line. Readers see every step once and
// in order, also after a resume from any step in any part.
TEST_F(Metrics, RotatedPartsAreReadAsOneFileAndCutAsOne) {
  const auto write = [&] {
    auto metrics = MetricsFile::create(path_, "\"params\":17");
    ASSERT_TRUE(metrics.ok());
    metrics->rotate_at(700, "\"params\":17");
    for (int64_t step = 1; step <= 20; ++step) metrics->on_step(step_report(step));
  };
  write();
  const int64_t parts = num_metrics_parts(path_);
  EXPECT_GT(parts, 3);
  for (int64_t part = 1; part <= parts; ++part) {
    const std::string text = read_text_file(metrics_part(path_, part)).value();
    EXPECT_EQ(parse_json(text.substr(0, text.find('\n')))["event"], "run");
  }
  EXPECT_EQ(lines().front()["event"], "run");
  for (int64_t from = 0; from <= 20; ++from) {
    write();
    {
      auto metrics = MetricsFile::resume(path_, from, "\"params\":17");
      ASSERT_TRUE(metrics.ok()) << metrics.error().message;
      metrics->rotate_at(700, "\"params\":17");
      for (int64_t step = from + 1; step <= 20; ++step) metrics->on_step(step_report(step));
    }
    std::vector<int64_t> want(20);
    std::iota(want.begin(), want.end(), 1);
    EXPECT_EQ(steps_of(path_), want) << "resumed after step " << from;
    EXPECT_EQ(parse_json(read_metrics(path_).value().substr(
                  0, read_metrics(path_).value().find('\n')))["event"],
              "run");
  }
  EXPECT_TRUE(MetricsFile::create(path_, "").ok());
  EXPECT_EQ(num_metrics_parts(path_), 0);  // a fresh run has no parts of an older one
}

TEST_F(Metrics, ALossBeforeAnybodyListensIsSaidToWhoListensFirst) {
  std::optional<MetricsFile> metrics;
  {
    const FileSizeLimit limit(0);
    auto created = MetricsFile::create(path_, "");
    ASSERT_TRUE(created.ok());
    metrics.emplace(std::move(*created));
  }
  Listener listener;
  metrics->tell_losses_to({&listener});
  EXPECT_EQ(listener.messages.size(), 1u);
}

}  // namespace
}  // namespace trireme
