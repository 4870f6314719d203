#include "checkpoint/find_checkpoint.h"
#include "data/sampler.h"
#include "data/token_file_writer.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

constexpr int64_t kWindow = 32, kSequences = 300, kRunSteps = 110, kSequencesPerStep = 2;
constexpr uint64_t kSeed = 5, kUnknownSample = 200;

// Data that a small model learns at once, with one sequence in the middle that it cannot know.
class Rollback : public SessionTest {
 protected:
  RunConfig run_of(SpikeChoice spike, int ranks) const {
    std::filesystem::create_directories(root_);
    auto writer = TokenFileWriter::create(path("train.tok"), 64, 1);
    std::vector<int32_t> tokens(size_t(kSequences * kWindow) + 1);
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = int32_t(t % 4);
    const Sampler sampler(kSeed, int64_t(tokens.size()), kWindow);
    const int64_t unknown = sampler.first_token(kUnknownSample);
    for (int64_t t = 0; t < kWindow; ++t) tokens[size_t(unknown + t)] = int32_t(t * t % 61);
    EXPECT_TRUE(writer.ok() && writer->append(tokens).ok() && writer->finish({}).ok());
    RunConfig config = tiny_run(ComputeChoice::Fp32, kRunSteps);
    config.data.source = DataSource::Files;
    config.data.train = path("train.tok");
    config.batch.global_sequences = kSequencesPerStep;
    config.parallel.dp = ranks;
    config.run.spike = spike;
    config.run.seed = kSeed;
    config.checkpoint.every = 20;
    config.checkpoint.keep = 2;
    return config;
  }
};

TEST_F(Rollback, LeavesOutTheSamplesSinceTheLastCheckpointAndTrainsAllSteps) {
  for (const int ranks : {1, 2}) {
    const std::string calm = "calm" + std::to_string(ranks), back = "back" + std::to_string(ranks);
    ASSERT_TRUE(outcome_of(run_of(SpikeChoice::None, ranks), calm).result.ok());
    const Outcome outcome = outcome_of(run_of(SpikeChoice::Rollback, ranks), back);
    ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
    EXPECT_NE(outcome.messages.find("is a spike"), std::string::npos) << outcome.messages;

    const auto rollbacks = lines_of(back, "rollback");
    ASSERT_EQ(rollbacks.size(), 1u);
    const int64_t spike = rollbacks[0]["spike_step"], resumed = rollbacks[0]["step"];
    EXPECT_EQ(rollbacks[0]["samples"], (spike - resumed) * kSequencesPerStep);
    EXPECT_EQ(rollbacks[0]["first_sample"], resumed * kSequencesPerStep);
    EXPECT_EQ(spike, int64_t(kUnknownSample) / kSequencesPerStep + 1);
    EXPECT_LE(spike - resumed, 21);

    // The steps before it are those of the other run, and the spike is in none of the steps.
    const auto steps = lines_of(back, "train"), calm_steps = lines_of(calm, "train");
    ASSERT_EQ(steps.size(), size_t(kRunSteps));
    for (int64_t i = 0; i < kRunSteps; ++i) {
      EXPECT_EQ(steps[size_t(i)]["step"], i + 1);
      const double loss = steps[size_t(i)]["loss"];
      if (i < resumed) {
        EXPECT_EQ(loss, calm_steps[size_t(i)]["loss"]);
      } else {
        EXPECT_LT(loss, rollbacks[0]["loss"]);
      }
    }
    const auto last = find_checkpoint(path(back));
    ASSERT_TRUE(last.ok());
    EXPECT_EQ(last->info().next_sample, (kRunSteps + spike - resumed) * kSequencesPerStep);
    std::filesystem::remove_all(root_);
  }
}

TEST_F(Rollback, WithoutACheckpointBeforeTheSpikeIsToldAndTheRunContinues) {
  RunConfig config = run_of(SpikeChoice::Rollback, 1);
  config.checkpoint.every = 0;
  const Outcome outcome = outcome_of(config, "run");
  ASSERT_TRUE(outcome.result.ok());
  EXPECT_NE(outcome.messages.find("there is no checkpoint before it"), std::string::npos);
  EXPECT_EQ(lines_of("run", "train").size(), size_t(kRunSteps));
  EXPECT_TRUE(lines_of("run", "rollback").empty());
}

TEST_F(Rollback, AutoIntervalsAreToldAndChangeNoLoss) {
  RunConfig config = run_of(SpikeChoice::None, 2);
  ASSERT_TRUE(outcome_of(config, "explicit").result.ok());
  config.checkpoint.every = kAutoSteps;
  const Outcome outcome = outcome_of(config, "auto");
  ASSERT_TRUE(outcome.result.ok()) << outcome.result.error().message;
  EXPECT_NE(outcome.messages.find("checkpoint.every is"), std::string::npos) << outcome.messages;
  const auto with = lines_of("auto", "train"), without = lines_of("explicit", "train");
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i]["loss"], without[i]["loss"]);
}

// The parts add up to the whole time, and the summary and the last line of the metrics agree.
TEST_F(Rollback, TheTimeOfARunIsDividedByReason) {
  ASSERT_TRUE(outcome_of(run_of(SpikeChoice::None, 2), "run").result.ok());
  const auto summary = parse_json(*read_text_file(path("run") + "/summary.json"));
  const nlohmann::json& goodput = summary["goodput"];
  double sum = 0.0;
  for (const auto& part : goodput["seconds"].items()) {
    EXPECT_GE(part.value().get<double>(), 0.0) << part.key();
    sum += part.value().get<double>();
  }
  EXPECT_NEAR(sum, goodput["all_s"].get<double>(), 0.02 * goodput["all_s"].get<double>());
  EXPECT_GT(goodput["seconds"]["saving"].get<double>(), 0.0);
  EXPECT_LT(goodput["effective"].get<double>(), 1.0);
  const auto lines = lines_of("run", "goodput");
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back()["seconds"], goodput["seconds"]);
}

}  // namespace
}  // namespace trireme
