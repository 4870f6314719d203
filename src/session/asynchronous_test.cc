#include "session/asynchronous.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "planner/make_plan.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

RunConfig asynchronous(RunConfig config, int dp, int staleness) {
  config.parallel.dp = dp;
  config.parallel.sync = GradSync::ParameterServer;
  config.parallel.staleness = staleness;
  return config;
}

class Asynchronous : public SessionTest {
 protected:
  static RunConfig eight_sequences(int64_t steps) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, steps);
    config.batch.global_sequences = 8;
    return config;
  }

  std::vector<double> losses_of(const RunConfig& config, const std::string& folder,
                                ResumeMode resume = ResumeMode::Fresh) const {
    std::vector<double> losses;
    for (const StepReport& step : reports_of(config, folder, resume)) losses.push_back(step.loss);
    return losses;
  }
};

// A single worker reads its own pushes, so it repeats the run without a server bit for bit. The
// same holds when either run resumes from a checkpoint of the other.
TEST_F(Asynchronous, OneWorkerIsTheRunWithoutAServer) {
  struct Variant {
    std::string name;
    ComputeChoice compute;
    StateChoice state = StateChoice::Fp32;
  };
  for (const auto& [name, compute, state] :
       {Variant{"fp32", ComputeChoice::Fp32}, Variant{"bf16", ComputeChoice::Bf16},
        Variant{"bf16_state", ComputeChoice::Bf16, StateChoice::Bf16}}) {
    RunConfig plain = eight_sequences(12);
    plain.precision.compute = compute;
    plain.optim.grad_dtype = plain.optim.moment_dtype = state;
    plain.optim.master = state == StateChoice::Fp32;
    const std::vector<double> expected = losses_of(plain, name);
    const RunConfig served = asynchronous(plain, 1, 2);
    EXPECT_EQ(losses_of(served, name + "_served"), expected);

    RunConfig half = served;
    half.run.stop_after = 5;
    losses_of(half, name + "_half");
    const std::vector<double> rest = losses_of(served, name + "_half", ResumeMode::Auto);
    EXPECT_EQ(rest, std::vector<double>(expected.begin() + 5, expected.end()));
    losses_of(half, name + "_moved");
    EXPECT_EQ(losses_of(plain, name + "_moved", ResumeMode::Auto), rest);
  }
}

double mean_of_last(const std::vector<double>& losses, size_t count) {
  double sum = 0.0;
  for (size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / double(count);
}

// Four workers train on as many sequences as the synchronous run, but each update comes from older
// parameters and a quarter of the batch. They learn less, and differently in each run, but nearly
// as much.
TEST_F(Asynchronous, ConvergesBesideTheSynchronousRun) {
  RunConfig synchronous = eight_sequences(80);
  synchronous.optim.lr = 2e-3;
  synchronous.parallel.dp = 4;
  synchronous.parallel.sync = GradSync::ParameterServer;
  const std::vector<double> together = losses_of(synchronous, "synchronous");
  const double learned = together.front() - mean_of_last(together, 5);
  ASSERT_GT(learned, 0.5);
  for (const int staleness : {1, 4}) {
    const std::vector<double> apart =
        losses_of(asynchronous(synchronous, 4, staleness), fmt::format("staleness_{}", staleness));
    ASSERT_EQ(apart.size(), together.size());
    EXPECT_GT(apart.front() - mean_of_last(apart, 5), 0.5 * learned) << staleness;
  }
}

// Memory and traffic of every worker equal the predictions to the byte.
TEST_F(Asynchronous, WorkersUseWhatTheirPlanSays) {
  losses_of(asynchronous(eight_sequences(4), 2, 1), "measured");
  const Result<std::string> text = read_text_file((root_ / "measured" / "summary.json").string());
  ASSERT_TRUE(text.ok());
  const auto ranks = parse_json(*text).at("ranks");
  EXPECT_EQ(ranks.size(), 2u);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank["memory"]["measured"]["peak"], rank["memory"]["predicted"]["peak"]);
    EXPECT_EQ(rank["traffic"]["measured"], rank["traffic"]["predicted"]);
    EXPECT_GT(rank["traffic"]["measured"]["dp"], 0);
  }
}

TEST_F(Asynchronous, RefusesWhatCannotBe) {
  const RunConfig good = asynchronous(eight_sequences(2), 2, 1);
  ASSERT_TRUE(make_plan(good, {}).ok());
  const auto refused = [&](auto&& change) {
    RunConfig config = good;
    change(config);
    return !make_plan(config, {}).ok();
  };
  EXPECT_TRUE(refused([](RunConfig& c) { c.parallel.sync = GradSync::AllReduce; }));
  EXPECT_TRUE(refused([](RunConfig& c) { c.parallel.servers = 2; }));
  EXPECT_TRUE(refused([](RunConfig& c) { c.parallel.pp = 2; }));
  EXPECT_TRUE(refused([](RunConfig& c) { c.parallel.zero = 1; }));
  for (const ScheduleKind two_chunks : {ScheduleKind::Interleaved, ScheduleKind::ZbV,
                                        ScheduleKind::DualpipeV, ScheduleKind::Auto}) {
    EXPECT_TRUE(refused([&](RunConfig& c) { c.parallel.schedule = two_chunks; }));
  }
  EXPECT_TRUE(refused([](RunConfig& c) { c.memory.offload = OffloadChoice::Optimizer; }));
  EXPECT_TRUE(refused([](RunConfig& c) { c.run.backend = BackendChoice::Mpi; }));
  EXPECT_TRUE(refused([](RunConfig& c) { c.batch.global_sequences = 7; }));
}

}  // namespace
}  // namespace trireme
