#include <cmath>
#include <vector>

#include "session/session_fixture.h"

namespace trireme {
namespace {

struct Step {
  double loss, loss_scale;
  bool skipped;
  bool operator==(const Step&) const = default;
};

class Fp16 : public SessionTest {
 protected:
  static RunConfig four_sequences(ComputeChoice compute, int64_t steps) {
    RunConfig config = tiny_run(compute, steps);
    config.batch.global_sequences = 4;
    config.run.reproducible = Reproducible::Layout;
    return config;
  }

  std::vector<Step> steps_of(const RunConfig& config, const std::string& folder,
                             ResumeMode resume = ResumeMode::Fresh) const {
    std::vector<Step> steps;
    for (const StepReport& step : reports_of(config, folder, resume)) {
      steps.push_back({step.loss, step.loss_scale, step.skipped});
    }
    return steps;
  }
};

TEST_F(Fp16, LearnsWhatFp32Learns) {
  const std::vector<Step> half = steps_of(four_sequences(ComputeChoice::Fp16, 40), "fp16");
  const std::vector<Step> single = steps_of(four_sequences(ComputeChoice::Fp32, 40), "fp32");
  EXPECT_LT(single.back().loss, single.front().loss - 0.5);
  for (size_t i = 0; i < half.size(); ++i) {
    EXPECT_NEAR(half[i].loss, single[i].loss, 0.02 * single[i].loss) << i;
    EXPECT_EQ(single[i].loss_scale, 0.0);
  }
}

// Such a run is short: a longer one is given up after 32 steps in a row. One update is enough.
TEST_F(Fp16, ARunThatSkipsEveryStepFailsAndSaysWhatToChange) {
  RunConfig config = four_sequences(ComputeChoice::Fp16, 30);
  config.precision.loss_scale = 0x1p24;
  int64_t skipped = 0;
  for (const Step& step : steps_of(config, "long")) {
    if (!step.skipped) break;
    ++skipped;
  }
  ASSERT_GT(skipped, 1);
  for (const int dp : {1, 2}) {
    config.parallel.dp = dp;
    config.run.steps = skipped;
    const Outcome failed = outcome_of(config, fmt::format("none-{}", dp));
    ASSERT_FALSE(failed.result.ok());
    EXPECT_EQ(failed.result.error().kind, ErrorKind::Runtime);
    EXPECT_NE(failed.result.error().message.find("no gradient was finite in any step"),
              std::string::npos)
        << failed.result.error().message;
    EXPECT_NE(failed.result.error().message.find("precision.loss_scale = 16777216"),
              std::string::npos)
        << failed.result.error().message;
    config.run.steps = skipped + 1;
    EXPECT_TRUE(outcome_of(config, fmt::format("one-{}", dp)).result.ok());
  }
  RunConfig huge = four_sequences(ComputeChoice::Fp32, 3);
  huge.model.init_stddev = 3e38;
  const Outcome failed = outcome_of(huge, "huge");
  ASSERT_FALSE(failed.result.ok());
  EXPECT_NE(failed.result.error().message.find("model.init_stddev"), std::string::npos)
      << failed.result.error().message;
  EXPECT_EQ(failed.result.error().message.find("loss_scale"), std::string::npos);
}

// A loss scale that is too large skips steps until it fits. Every layout skips the same steps, and
// a run that is stopped during them resumes with the same results.
TEST_F(Fp16, SkipsOverflowsAlikeOnEveryLayoutAndAfterAStop) {
  RunConfig config = four_sequences(ComputeChoice::Fp16, 30);
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
  split.parallel.schedule = ScheduleKind::ZbH1;
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
