#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "comm/local/sole_rank.h"
#include "data/synthetic_source.h"
#include "device/isa.h"
#include "kernels/kernel_table.h"
#include "planner/make_plan.h"
#include "session/asynchronous.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

constexpr int kWorkers = 3;
constexpr int64_t kSteps = 12;

RunConfig served(int staleness) {
  RunConfig config;
  config.model.layers = 1;
  config.model.d_model = 8;
  config.model.heads = 2;
  config.model.vocab_size = 19;
  config.model.seq_len = 4;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = kWorkers;
  config.batch.micro_sequences = 1;
  config.parallel.dp = kWorkers;
  config.parallel.sync = GradSync::ParameterServer;
  config.parallel.staleness = staleness;
  config.run.threads_per_rank = 1;
  config.run.comm_timeout_s = 20.0;
  return config;
}

// Tracks the step of each worker by the samples that it reads: in each step a worker reads its own
// sample.
class Progress {
 public:
  Progress() {
    for (std::atomic<int64_t>& step : steps_) step = -1;
  }
  // Records that a worker has begun a step. Returns by how many steps it is ahead of the last
  // worker.
  int64_t enter(int worker, int64_t step) {
    int64_t last = step;
    for (const std::atomic<int64_t>& other : steps_) last = std::min(last, other.load());
    steps_[size_t(worker)] = step;
    const int64_t lead = step - last;
    int64_t widest = widest_.load();
    while (lead > widest && !widest_.compare_exchange_weak(widest, lead)) {
    }
    return lead;
  }
  int64_t step_of(int worker) const { return steps_[size_t(worker)]; }
  int64_t widest_lead() const { return widest_; }

 private:
  std::array<std::atomic<int64_t>, kWorkers> steps_;
  std::atomic<int64_t> widest_ = 0;
};

// A token source that records the progress of its worker and may delay it.
class WorkerSource : public TokenSource {
 public:
  using Delay = std::function<void(int64_t step)>;
  WorkerSource(int worker, Progress& progress, Delay delay)
      : worker_(worker), progress_(progress), delay_(std::move(delay)), tokens_(3, 19) {}
  int64_t vocab_size() const override { return tokens_.vocab_size(); }
  void read_sample(uint64_t sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    EXPECT_EQ(int(sample % kWorkers), worker_);
    progress_.enter(worker_, int64_t(sample) / kWorkers);
    delay_(int64_t(sample) / kWorkers);
    tokens_.read_sample(sample, inputs, targets);
  }

 private:
  int worker_;
  Progress& progress_;
  Delay delay_;
  SyntheticSource tokens_;
};

const KernelTable& kernels() {
  const std::vector<Isa> isas = supported_isas();
  return isas.empty() ? reference_kernels() : cpu_kernels(isas.back());
}

// Trains; every worker calls `delay` in every step.
void train(const RunConfig& config, Progress& progress,
           const std::function<void(World&, int worker, int64_t step)>& delay) {
  const Result<RunPlan> plan = make_plan(config, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  run_ranks(1 + kWorkers, {.timeout_s = config.run.comm_timeout_s}, [&](World& all) {
    SoleRank own;
    const int worker = all.rank() - 1;
    const WorkerSource source(worker, progress, [&](int64_t step) { delay(all, worker, step); });
    Engine engine(*plan, own.world(), kernels(), source);
    engine.init_params(7);
    if (all.rank() > 0) return run_asynchronous_worker(all.group(), *plan, engine);
    AsynchronousServer server(all.group(), *plan, engine);
    server.begin({});
    for (int64_t step = 0; step < kSteps; ++step) server.step(1e-3, false);
    server.finish();
  });
}

// A worker may begin a step when the last worker has pushed all earlier steps but `staleness`. The
// last worker may be in the step after its last push or just before it, so the lead is at most
// staleness + 1.
TEST(Staleness, NoWorkerIsFartherAheadThanItAllows) {
  for (const int staleness : {1, 2, 3}) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(fmt::format("staleness {} seed {}", staleness, seed));
      Progress progress;
      std::array<std::mt19937, kWorkers> random;
      for (unsigned w = 0; w < kWorkers; ++w) random[w].seed(seed * kWorkers + w);
      train(served(staleness), progress, [&](World&, int worker, int64_t) {
        std::this_thread::sleep_for(std::chrono::microseconds(random[size_t(worker)]() % 600));
      });
      EXPECT_LE(progress.widest_lead(), staleness + 1);
    }
  }
}

// While one worker stalls in a step, the others continue as far as they may and no farther.
TEST(Staleness, OthersWaitForAWorkerThatStalls) {
  for (const int staleness : {1, 2, 3}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    constexpr int64_t kStalled = 2;
    Progress progress;
    train(served(staleness), progress, [&](World&, int worker, int64_t step) {
      if (worker != 0 || step != kStalled) return;
      const auto is_far = [&](int other) { return progress.step_of(other) >= step + staleness; };
      for (int tries = 0; tries < 5000 && !(is_far(1) && is_far(2)); ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      // Time in which the others could continue.
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      EXPECT_EQ(progress.step_of(1), step + staleness);
      EXPECT_EQ(progress.step_of(2), step + staleness);
    });
  }
}

TEST(Staleness, AWorkerThatDoesNotComeBackEndsTheRunAtTheDeadline) {
  RunConfig config = served(1);
  config.run.comm_timeout_s = 0.3;
  Progress progress;
  try {
    train(config, progress, [&](World& all, int worker, int64_t step) {
      const bool stalls = worker == 0 && step == 1;
      for (int tries = 0; stalls && !all.aborted() && tries < 1000; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    FAIL() << "the others did not wait with a deadline";
  } catch (const RankError& error) {
    EXPECT_NE(std::string(error.what()).find("deadline"), std::string::npos) << error.what();
  }
}

class SynchronousServer : public SessionTest {};

// With staleness 0 every step sums the gradients of all workers in rank order.
TEST_F(SynchronousServer, HasTheBitsOfAllReduce) {
  for (const int64_t seed : {1, 2, 3}) {
    RunConfig config = tiny_run(ComputeChoice::Fp32, 6);
    config.batch.global_sequences = 8;
    config.parallel.dp = 2;
    config.run.seed = uint64_t(seed);
    config.run.reproducible = Reproducible::Layout;
    const std::vector<StepReport> reduced = reports_of(config, fmt::format("reduced_{}", seed));
    config.parallel.sync = GradSync::ParameterServer;
    const std::vector<StepReport> served = reports_of(config, fmt::format("served_{}", seed));
    ASSERT_EQ(served.size(), reduced.size());
    for (size_t step = 0; step < served.size(); ++step) {
      EXPECT_EQ(served[step].loss, reduced[step].loss);
      EXPECT_EQ(served[step].grad_norm, reduced[step].grad_norm);
    }
  }
}

}  // namespace
}  // namespace trireme
