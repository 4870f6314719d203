#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "comm/world.h"
#include "data/synthetic_source.h"
#include "planner/make_plan.h"
#include "train/kernel_choice.h"
#include "train/run_fixture.h"
#include "train/run_state.h"
#include "train/trainer.h"

namespace trireme {
namespace {

struct MfuRun {
  std::vector<double> mfu;
  std::vector<std::string> messages;
  double peak_flops = 0.0;
  std::optional<RaisedPeak> raised;
  int num_measured = 0;
};

class SeesMfu : public RunObserver {
 public:
  explicit SeesMfu(MfuRun& run) : run_(run) {}
  void on_step(const StepReport& report) override { run_.mfu.push_back(report.mfu); }
  void on_message(std::string_view text) override { run_.messages.emplace_back(text); }

 private:
  MfuRun& run_;
};

// Trains with a ceiling that was measured at the start, and one that is measured later.
MfuRun train_below(double at_start, std::optional<double> later) {
  RunConfig config = some_run();
  config.run.steps = 6;
  config.checkpoint.at_end = false;
  const Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  MfuRun run;
  run_ranks(1, [&](World& world) {
    const SyntheticSource source(3, plan->model.vocab_size);
    Engine engine(*plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    SeesMfu sees(run);
    const std::atomic<int> no_signals = 0;
    TrainerParts parts{.plan = *plan, .engine = engine, .stop_signals = no_signals};
    parts.peak_flops = at_start;
    if (later) {
      parts.measure_peak = [&] {
        ++run.num_measured;
        return *later;
      };
    }
    parts.observers = {&sees};
    Trainer trainer =
        Trainer::make(std::move(parts), [&](const TrainPosition& at) {
          return SaveRequest{checkpoint_info(*plan, at, "data"), {}, std::string("none"), ""};
        }).value();
    const Result<TrainEnd> end = trainer.run({});
    TRIREME_CHECK(end.ok(), end.error().message);
    run.peak_flops = trainer.ceiling().flops_per_s();
    run.raised = trainer.ceiling().raised();
  });
  return run;
}

// A ceiling that was measured while others took the cores makes no MFU above 1. It is measured
// again, which is told once with the numbers.
TEST(RaisedPeak, ACeilingThatAStepBeatsIsMeasuredAgainAndThatIsTold) {
  constexpr double kTrue = 1e16;  // far above every processor
  const MfuRun run = train_below(1.0, kTrue);
  EXPECT_EQ(run.peak_flops, kTrue);
  EXPECT_EQ(run.num_measured, 1);
  ASSERT_TRUE(run.raised.has_value());
  EXPECT_EQ(run.raised->step, 1);
  EXPECT_EQ(run.raised->before, 1.0);
  for (const double mfu : run.mfu) EXPECT_LT(mfu, 0.1);
  ASSERT_EQ(run.messages.size(), 1u);
  EXPECT_NE(run.messages[0].find("The ceiling was raised to 10000000.0 GFLOP/s, which was measured "
                                 "now"),
            std::string::npos)
      << run.messages[0];
}

// If the new measurement is too low as well, or if there is none, the steps raise the ceiling.
TEST(RaisedPeak, WithoutABetterMeasurementTheFastestStepIsTheCeiling) {
  for (const std::optional<double> later : {std::optional<double>(), std::optional<double>(2.0)}) {
    const MfuRun run = train_below(1.0, later);
    EXPECT_GT(run.peak_flops, 2.0);
    EXPECT_LE(run.num_measured, 3);
    for (const double mfu : run.mfu) {
      EXPECT_GT(mfu, 0.0);
      EXPECT_LE(mfu, 1.0);
    }
    ASSERT_EQ(run.messages.size(), 1u);
    EXPECT_NE(run.messages[0].find("the rate of this step"), std::string::npos) << run.messages[0];
  }
}

TEST(RaisedPeak, ACeilingThatHoldsStaysAsItIs) {
  const MfuRun run = train_below(1e16, 1e17);
  EXPECT_EQ(run.peak_flops, 1e16);
  EXPECT_EQ(run.num_measured, 0);
  EXPECT_FALSE(run.raised.has_value());
  EXPECT_TRUE(run.messages.empty());
}

}  // namespace
}  // namespace trireme
