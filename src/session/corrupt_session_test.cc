// Runs in which a rank has a core that is always wrong in the same way.
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/file.h"
#include "base/json_text.h"
#include "comm/world.h"
#include "device/host.h"
#include "observe/report.h"
#include "session/rank_session.h"
#include "session/session_fixture.h"
#include "train/corruption_fixture.h"

namespace trireme {
namespace {

class CorruptSession : public SessionTest {
 protected:
  // Trains until the checks end the run. Returns the error, the same on all ranks.
  Error train_with(const RunConfig& config, int defective, const KernelTable& kernels,
                   ResumeMode resume = ResumeMode::Fresh) {
    const std::atomic<int> no_signals = 0;
    const SessionOptions options{.config = config,
                                 .out_dir = path("run"),
                                 .resume = resume,
                                 .host = {.num_cores = 2},
                                 .stop_signals = no_signals};
    std::filesystem::create_directories(options.out_dir);
    const RunPlan plan = plan_session(config, options.host).value();
    RunFolder folder = std::move(RunFolder::hold(options.out_dir, "")).value();
    const CpuLoad load;
    const KernelChoice right = choose_kernels(IsaChoice::Auto).value();
    Error error;
    std::mutex mutex;
    run_ranks(plan.num_ranks(), {}, [&](World& world) {
      KernelChoice choice = right;
      if (world.rank() == defective) choice.kernels = &kernels;
      SessionParts parts{options, plan, choice, folder, load};
      RankSession session(parts, world,
                          std::move(open_session_data(config, plan.model.vocab_size)).value(),
                          [](Engine& engine) { return std::make_unique<StepsTogether>(engine); });
      const Result<SessionResult> result = session.run();
      const std::lock_guard lock(mutex);
      ASSERT_FALSE(result.ok());
      if (error.message.empty()) error = result.error();
      EXPECT_EQ(result.error().message, error.message);
    });
    return error;
  }

  nlohmann::json summary() const {
    return parse_json(read_text_file(path("run/summary.json")).value());
  }
};

TEST_F(CorruptSession, SummaryMetricsAndReportNameTheRankAndTheHostThatWereWrong) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 9);
  config.batch.global_sequences = 6;
  config.parallel.dp = 3;
  config.checkpoint.every = 3;
  config.run.replay_elsewhere_every = 4;
  const Error error = train_with(config, 1, defective_kernels<kSmallBit, MatmulForm::NT>());
  EXPECT_EQ(error.kind, ErrorKind::Runtime);
  EXPECT_EQ(error.message.find("step 4: the state of the run is corrupt: rank 1"), 0u);

  const nlohmann::json found = {
      {"check", "replay_elsewhere"},
      {"step", 4},
      {"ranks", nlohmann::json::array({{{"rank", 1}, {"host", host_name()}}})},
      {"certain", true}};
  EXPECT_EQ(summary().at("corruptions"), nlohmann::json::array({found}));
  EXPECT_EQ(summary().at("end"), "corrupt");
  EXPECT_EQ(summary().at("steps"), 4);
  EXPECT_EQ(summary().at("ranks").size(), 3u);

  const nlohmann::json failure = lines_of("run", "failure").back();
  EXPECT_EQ(failure.at("corruption"), found);
  EXPECT_EQ(failure.at("cause"), error.message);

  ASSERT_TRUE(write_report(path("run"), path("run/report.html")).ok());
  std::ifstream page(path("run/report.html"));
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  EXPECT_NE(text.find("\"corruption\":{"), std::string::npos);
  EXPECT_NE(text.find("corruptionCard"), std::string::npos);
}

// Steps 2 and 4 were clean. A product is wrong beyond rounding, or a gradient by less.
TEST_F(CorruptSession, AResumedRunKnowsTheCleanStepOfItsCheckpoint) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 9);
  config.batch.global_sequences = 6;
  config.parallel.dp = 3;
  config.run.replay_elsewhere_every = 2;
  config.run.stop_after = 5;
  ASSERT_TRUE(outcome_of(config, "run").result.ok());
  config.run.stop_after = 0;
  config.run.replay_elsewhere_every = 6;
  std::filesystem::copy(path("run"), path("kept"), std::filesystem::copy_options::recursive);
  for (const bool checks_products : {false, true}) {
    config.run.check_products_every = checks_products ? 6 : 0;
    train_with(config, 1,
               checks_products ? defective_kernels<kHighBit, MatmulForm::NT>()
                               : defective_kernels<kSmallBit, MatmulForm::NT>(),
               ResumeMode::Auto);
    const nlohmann::json found = summary().at("corruptions").back();
    EXPECT_EQ(found.at("check"), checks_products ? "products" : "replay_elsewhere");
    EXPECT_EQ(found.at("step"), 6);
    EXPECT_EQ(found.at("clean_step"), 4);
    std::filesystem::remove_all(path("run"));
    std::filesystem::copy(path("kept"), path("run"), std::filesystem::copy_options::recursive);
  }
}

// With two ranks nothing tells which one was wrong.
TEST_F(CorruptSession, OfTwoRanksBothAreInTheSummary) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 9);
  config.batch.global_sequences = 4;
  config.parallel.dp = 2;
  config.run.replay_elsewhere_every = 1;
  train_with(config, 0, defective_kernels<kSmallBit, MatmulForm::NN>());
  const nlohmann::json found = summary().at("corruptions").at(0);
  EXPECT_EQ(found.at("ranks").size(), 2u);
  EXPECT_EQ(found.at("certain"), false);
}

}  // namespace
}  // namespace trireme
