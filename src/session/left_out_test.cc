#include <fmt/format.h>

#include "checkpoint/find_checkpoint.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

constexpr int64_t kLastStep = 14;
constexpr int64_t kBatch = 4;

class LeftOut : public SessionTest {
 protected:
  static RunConfig run_of(int dp, int pp) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, kLastStep);
    config.batch.global_sequences = kBatch;
    config.parallel.dp = dp;
    config.parallel.pp = pp;
    config.run.reproducible = Reproducible::Layout;
    config.run.tensorboard = false;
    config.checkpoint.every = 4;
    return config;
  }

  // Returns steps, losses and norms with all their digits.
  std::string numbers_of(const std::string& folder) const {
    std::string text;
    for (const nlohmann::json& line : lines_of(folder, "train")) {
      text += fmt::format("{} {} {}\n", json_text(line["step"]), json_text(line["loss"]),
                          json_text(line["grad_norm"]));
    }
    return text;
  }
};

// Samples 20 to 23 would be those of step 6. Samples 38 and 39 lie in the middle of a batch.
TEST_F(LeftOut, ARunThatIsToldLaterResumedAndLaidOutAnewIsTheOneThatWasToldAtOnce) {
  RunConfig config = run_of(1, 1);
  config.run.skip_samples = "20-23,38-39";
  ASSERT_TRUE(outcome_of(config, "told").result.ok());

  config = run_of(2, 1);
  config.run.stop_after = 5;
  ASSERT_TRUE(outcome_of(config, "later").result.ok());
  config.run.skip_samples = "20-23,38-39";
  config.run.stop_after = 7;
  ASSERT_TRUE(outcome_of(config, "later", ResumeMode::Auto).result.ok());
  // From here on, only the checkpoint lists the samples.
  config = run_of(1, 2);
  config.parallel.schedule = ScheduleKind::ZbH1;
  ASSERT_TRUE(outcome_of(config, "later", ResumeMode::Auto).result.ok());

  EXPECT_EQ(numbers_of("told"), numbers_of("later"));
  for (const char* folder : {"told", "later"}) {
    const auto skips = lines_of(folder, "skip");
    ASSERT_EQ(skips.size(), 2u);
    EXPECT_EQ(skips[0]["step"], 6);
    EXPECT_EQ(skips[0]["first_sample"], 20);
    EXPECT_EQ(skips[0]["samples"], kBatch);
    EXPECT_EQ(skips[1]["step"], 9);
    EXPECT_EQ(skips[1]["first_sample"], 36);  // the batch begins behind those that are left out
    EXPECT_EQ(skips[1]["samples"], 4);
    const auto last = find_checkpoint(path(folder));
    ASSERT_TRUE(last.ok());
    EXPECT_EQ(last->info().next_sample, kLastStep * kBatch + 8);
    EXPECT_EQ(last->info().left_out, (std::vector<SampleRange>{{20, 4}, {38, 2}}));
  }

  ASSERT_TRUE(outcome_of(run_of(1, 1), "all").result.ok());
  EXPECT_NE(numbers_of("told"), numbers_of("all"));
  EXPECT_EQ(numbers_of("told").substr(0, numbers_of("told").find("\n6 ")),
            numbers_of("all").substr(0, numbers_of("all").find("\n6 ")));
}

TEST_F(LeftOut, WorkersThatDoNotStepTogetherCannotLeaveSamplesOut) {
  RunConfig config = run_of(2, 1);
  config.parallel.staleness = 1;
  config.parallel.sync = GradSync::ParameterServer;
  config.parallel.servers = 1;
  config.run.reproducible = Reproducible::Fixed;
  config.run.skip_samples = "20-23";
  const Outcome outcome = outcome_of(config, "stale");
  ASSERT_FALSE(outcome.result.ok());
  const std::string& message = outcome.result.error().message;
  EXPECT_NE(message.find("run.skip_samples"), std::string::npos) << message;
}

}  // namespace
}  // namespace trireme
