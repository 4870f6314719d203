#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <vector>

#include "train/session.h"

namespace trireme {
namespace {

RunConfig tiny_run(const char* compute, int64_t steps) {
  RunConfig config;
  config.model.layers = 2;
  config.model.d_model = 32;
  config.model.heads = 2;
  config.model.vocab_size = 64;
  config.model.seq_len = 32;
  config.data.source = "synthetic";
  config.batch.global_sequences = 4;
  config.batch.micro_sequences = 1;
  config.optim.lr = 5e-3;
  config.optim.warmup_steps = 2;
  config.precision.compute = compute;
  config.run.steps = steps;
  config.run.reproducible = "layout";
  config.run.threads_per_rank = 1;
  return config;
}

struct Step {
  double loss, loss_scale;
  bool skipped;
  bool operator==(const Step&) const = default;
};

class Steps : public RunObserver {
 public:
  void on_step(const StepReport& report) override {
    values.push_back({report.loss, report.loss_scale, report.skipped});
  }
  std::vector<Step> values;
};

class Fp16 : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / fmt::format("trireme-fp16-{}", getpid());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::vector<Step> steps_of(const RunConfig& config, const std::string& folder,
                             ResumeMode resume = ResumeMode::Fresh) {
    const std::atomic<int> no_signals = 0;
    Steps steps;
    HostFacts host;
    host.num_cores = 2;
    const Result<SessionResult> result = run_session({.config = config,
                                                      .out_dir = (root_ / folder).string(),
                                                      .resume = resume,
                                                      .host = host,
                                                      .stop_signals = no_signals,
                                                      .observers = {&steps}});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return steps.values;
  }

  std::filesystem::path root_;
};

TEST_F(Fp16, LearnsWhatFp32Learns) {
  const std::vector<Step> half = steps_of(tiny_run("fp16", 40), "fp16");
  const std::vector<Step> single = steps_of(tiny_run("fp32", 40), "fp32");
  EXPECT_LT(single.back().loss, single.front().loss - 0.5);
  for (size_t i = 0; i < half.size(); ++i) {
    EXPECT_NEAR(half[i].loss, single[i].loss, 0.02 * single[i].loss) << i;
    EXPECT_EQ(single[i].loss_scale, 0.0);
  }
}

// A scale that is too large skips steps until it fits, in the same steps on every layout, and a run
// that is stopped among them goes on as if it had not been.
TEST_F(Fp16, SkipsOverflowsAlikeOnEveryLayoutAndAfterAStop) {
  RunConfig config = tiny_run("fp16", 30);
  config.precision.loss_scale = 0x1p24;
  config.precision.loss_scale_window = 6;
  const std::vector<Step> whole = steps_of(config, "whole");
  ASSERT_EQ(whole.size(), 30u);
  EXPECT_TRUE(whole.front().skipped);
  EXPECT_EQ(whole[1].loss_scale, 0x1p23);
  bool doubled = false;
  for (size_t i = 1; i < whole.size(); ++i) {
    const double factor = whole[i].loss_scale / whole[i - 1].loss_scale;
    EXPECT_EQ(factor == 0.5, whole[i - 1].skipped) << i;
    doubled = doubled || factor == 2.0;
    EXPECT_TRUE(std::isfinite(whole[i].loss));
  }
  EXPECT_TRUE(doubled);

  RunConfig split = config;
  split.parallel.dp = 2;
  split.parallel.zero = 2;
  EXPECT_EQ(steps_of(split, "dp"), whole);
  split.parallel.pp = 2;
  split.parallel.zero = 1;
  split.parallel.schedule = "zb_h1";
  EXPECT_EQ(steps_of(split, "dp_pp"), whole);

  for (const int64_t stop_after : {3, 17}) {
    RunConfig half = config;
    half.run.stop_after = stop_after;
    const std::string folder = fmt::format("stop_{}", stop_after);
    steps_of(half, folder);
    EXPECT_EQ(steps_of(split, folder, ResumeMode::Auto),
              std::vector<Step>(whole.begin() + stop_after, whole.end()));
  }
}

}  // namespace
}  // namespace trireme
