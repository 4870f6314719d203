#include "cli/train_progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "planner/make_plan.h"

namespace trireme {
namespace {

RunPlan plan_of_two_ranks() {
  RunConfig config;
  config.model.layers = 2;
  config.model.d_model = 32;
  config.model.heads = 2;
  config.model.vocab_size = 64;
  config.model.seq_len = 32;
  config.parallel.dp = 2;
  return make_plan(config, {}).value();
}

// Returns what a log shows of its last step.
std::string shown_of(const StepReport& report) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  TrainProgress progress(io);
  RunPlan plan = plan_of_two_ranks();
  plan.classes = {{.first = 0, .num_ranks = 1}, {.first = 1, .num_ranks = 1}};
  plan.classes[0].memory.arena_bytes = 3 << 20;
  plan.classes[1].memory.arena_bytes = 5 << 20;
  progress.begin(plan, {}, true);
  progress.on_step(report);
  progress.on_eval({.step = report.step, .val_loss = report.loss});
  progress.end();
  return err.str();
}

TEST(TrainProgress, MemoryIsThatOfTheRankThatNeedsMost) {
  const std::string shown = shown_of({.step = 2, .total_steps = 2});
  EXPECT_NE(shown.find("| 5.0 MiB a rank\n"), std::string::npos) << shown;
}

// The last line of a log is written after the validation of the last step.
TEST(TrainProgress, TheLineShowsTheBestOfTheNewestValidation) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  TrainProgress progress(io);
  progress.begin(plan_of_two_ranks(), {}, true);
  for (const int64_t step : {1, 2}) {
    const double loss = 4.0 - double(step);
    progress.on_step({.step = step, .total_steps = 2});
    progress.on_eval({.step = step, .val_loss = loss, .best_loss = loss, .best_step = step});
  }
  progress.end();
  const std::string log = err.str();
  EXPECT_NE(log.rfind("best val 2.0000 at 2 |"), std::string::npos) << log;
  EXPECT_GT(log.rfind("step 2/2"), log.rfind("validation loss")) << log;
}

TEST(TrainProgress, ANetOfImagesCountsImages) {
  const auto shown = [](const RunPlan& plan) {
    std::ostringstream out, err;
    CommandIo io{out, err};
    TrainProgress progress(io);
    progress.begin(plan, {}, true);
    progress.on_step({.step = 2, .total_steps = 2, .tokens_per_s = 12.5});
    progress.end();
    return err.str();
  };
  RunPlan plan = plan_of_two_ranks();
  EXPECT_NE(shown(plan).find("| 12.5 tok/s |"), std::string::npos);
  plan.model.family = ModelFamily::AlexNet;
  EXPECT_NE(shown(plan).find("| 12.5 images/s |"), std::string::npos);
}

TEST(TrainProgress, WhatIsNoNumberHasOneSpelling) {
  for (const double nan : {std::nan(""), -std::nan("")}) {
    const std::string shown =
        shown_of({.step = 2, .total_steps = 2, .loss = nan, .grad_norm = nan});
    EXPECT_NE(shown.find("loss nan"), std::string::npos) << shown;
    EXPECT_NE(shown.find("norm nan"), std::string::npos) << shown;
    EXPECT_NE(shown.find("validation loss nan"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("-nan"), std::string::npos) << shown;
  }
}

}  // namespace
}  // namespace trireme
