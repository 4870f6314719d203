#include "train/corruption_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "device/host.h"
#include "schema/run_config_text.h"
#include "train/corruption_fixture.h"
#include "train/kernel_choice.h"
#include "train/run_state.h"
#include "train/trainer.h"

namespace trireme {
namespace {

// Layouts that together replicate and shard the state in every way.
std::vector<RunConfig> checked_layouts() {
  std::vector<RunConfig> all;
  const auto add = [&](auto&& set) {
    all.push_back(some_run());
    set(all.back());
  };
  for (const int zero : {0, 1, 2, 3}) {
    for (const bool is_bf16 : {false, true}) {
      add([&](RunConfig& c) {
        c.parallel.dp = 2;
        c.parallel.zero = zero;
        if (is_bf16) c.precision.compute = ComputeChoice::Bf16;
      });
    }
  }
  add([](RunConfig& c) {
    c.parallel.dp = 4;
    c.parallel.zero = 3;
    c.parallel.hsdp_shard = 2;
  });
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::ZbH2;
    c.optim.post_validate = true;
    c.optim.clip_norm = 1e3;  // never clips, so a step may begin before the last one has ended
  });
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Dualpipe;
  });
  add([](RunConfig& c) {
    c.parallel.tp = 2;
    c.parallel.sequence = true;
  });
  add([](RunConfig& c) { c.parallel.cp = 2; });
  add([](RunConfig& c) {
    c.parallel.tp = c.parallel.dp = 2;
    c.parallel.zero = 1;
    c.model.dropout = 0.1;
  });
  add([](RunConfig& c) {
    c.model.family = ModelFamily::Moe;
    c.model.tied_head = false;
    c.model.d_ff = 16;
    c.model.experts = 4;
    c.parallel.dp = 4;
    c.parallel.ep = 2;
  });
  // Replicas that trade places as a whole.
  add([](RunConfig& c) {
    c.parallel.dp = 3;
    c.batch.global_sequences = 6;
    c.model.dropout = 0.1;
  });
  add([](RunConfig& c) {
    c.parallel.dp = c.parallel.pp = 2;
    c.parallel.zero = 2;
    c.model.dropout = 0.1;
    c.run.reproducible = Reproducible::Layout;
  });
  add([](RunConfig& c) {
    c.parallel.dp = 4;
    c.run.reproducible = Reproducible::Layout;
  });
  add([](RunConfig& c) {
    c.parallel.dp = c.parallel.cp = 2;
    c.parallel.zero = 3;
  });
  add([](RunConfig& c) {
    c.parallel.dp = c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Dualpipe;
  });
  add([](RunConfig& c) {
    c.parallel.dp = 2;
    c.precision.compute = ComputeChoice::Fp16;
  });
  add([](RunConfig& c) { c.precision.compute = ComputeChoice::Fp16; });
  add([](RunConfig& c) { c.memory.offload = OffloadChoice::Optimizer; });
  add([](RunConfig& c) {
    c.parallel.dp = 2;
    c.memory.offload = OffloadChoice::All;
  });
  return all;
}

// What a few steps leave, with or without checks.
struct CheckedSteps {
  std::vector<double> losses;
  std::vector<std::string> alarms;
  std::vector<std::pair<std::string, int64_t>> sent_bytes;
  CorruptionCounts counts;
};

CheckedSteps run_checked(const RunConfig& config, int64_t num_steps) {
  const RunPlan plan = tiny_plan(config);
  const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
  const uint64_t sequences = uint64_t(plan.global_sequences);
  CheckedSteps steps;
  std::mutex mutex;
  run_ranks(plan.num_ranks(), {}, [&](World& world) {
    const SyntheticSource source(1, plan.model.vocab_size);
    Engine engine(plan, world, *choice.kernels, source);
    engine.init_params(1);
    CorruptionChecks checks(engine, config.run);
    const auto before = engine.sent_bytes();  // making the checks sends something, too
    for (int64_t step = 1; step <= num_steps; ++step) {
      const uint64_t first = sequences * uint64_t(step - 1);
      checks.begin(step, first);
      std::optional<uint64_t> next;
      if (!checks.needs_end_of(step)) next = first + sequences;
      const StepResult result = engine.step(first, 1e-2, false, next);
      checks.end(step, result);
      const double loss_sum = result.loss_sum;
      const Status verdict = checks.verdict(step, false);
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) steps.losses.push_back(loss_sum);
      if (!verdict.ok()) steps.alarms.push_back(verdict.error().message);
    }
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) {
      steps.sent_bytes = engine.sent_bytes();
      for (size_t i = 0; i < before.size(); ++i) steps.sent_bytes[i].second -= before[i].second;
      steps.counts = checks.counts();
    }
  });
  return steps;
}

TEST(CorruptionChecks, OnEveryLayoutNothingIsAlarmedAndNoBitOfTrainingChanges) {
  for (const RunConfig& config : checked_layouts()) {
    const CheckedSteps checked = run_checked(with_checks(config), 3);
    EXPECT_EQ(checked.alarms, std::vector<std::string>()) << to_toml(config);
    EXPECT_EQ(checked.losses, run_checked(config, 3).losses) << to_toml(config);
    EXPECT_EQ(checked.counts.state_checks, 3);
    EXPECT_EQ(checked.counts.replays, 3);
    const Mesh mesh = mesh_of(config.parallel);
    EXPECT_EQ(checked.counts.replays_elsewhere, mesh.dp > mesh.ep_dp() ? 3 : 0) << to_toml(config);
    EXPECT_GT(checked.counts.products, 0);
  }
}

// Comparing the state sends nothing over the groups whose traffic is predicted.
TEST(CorruptionChecks, ComparingStateSendsNothingThatIsPredicted) {
  RunConfig config = tiny_run(2), checked = config;
  checked.run.check_state_every = 1;
  EXPECT_EQ(run_checked(checked, 3).sent_bytes, run_checked(config, 3).sent_bytes);
}

TEST(CorruptionChecks, WhatIsStoredTwiceIsCompared) {
  const auto counts = [](int dp, int zero, int hsdp_shard) {
    RunConfig config = with_checks(tiny_run(dp));
    config.parallel.zero = zero;
    config.parallel.hsdp_shard = hsdp_shard;
    return run_checked(config, 1).counts;
  };
  EXPECT_EQ(counts(1, 0, 0).compared_bytes, 0);
  EXPECT_EQ(counts(2, 3, 0).compared_bytes, 0);
  // Parameters, and of the moments nothing.
  EXPECT_EQ(counts(2, 1, 0).compared_bytes, 4 * tiny_plan(tiny_run(1)).num_params);
  for (const CorruptionCounts& all : {counts(2, 0, 0), counts(4, 3, 2)}) {
    EXPECT_EQ(all.compared_bytes, all.state_bytes);
    EXPECT_GT(all.state_bytes, 0);
  }
}

// The rank of the checks that flips a bit, and what the checks say.
TEST(CorruptionChecks, AFlippedBitOfAnyStateIsFoundWithItsTensorAndRank) {
  for (const int dp : {2, 3}) {
    const RunPlan plan = tiny_plan(tiny_run(dp, /*is_bf16=*/true));
    const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
    run_ranks(dp, {}, [&](World& world) {
      const SyntheticSource source(1, plan.model.vocab_size);
      Engine engine(plan, world, *choice.kernels, source);
      engine.init_params(1);
      StateCheck check(engine);
      engine.step(0, 1e-2);
      const std::vector<StateTensor> tensors = state_tensors(engine);
      std::mt19937_64 random{uint64_t(dp)};  // the same on all ranks
      for (const StateTensor& tensor : tensors) {
        const int bits = 8 * int(size_of(tensor.tensor_N.dtype));
        for (int bit = 0; bit < bits; ++bit) {
          const int culprit = int(random() % uint64_t(dp));
          const Flip flip{tensor.tensor_N,
                          int64_t(random() % uint64_t(tensor.tensor_N.num_elements())), bit};
          if (world.rank() == culprit) flip.apply();
          const Status found = check.run(7);
          if (world.rank() == culprit) flip.apply();
          ASSERT_FALSE(found.ok()) << tensor.name << " bit " << bit;
          const std::string who = dp == 2
                                      ? "ranks 0, 1 differ, and no majority tells"
                                      : fmt::format("rank {} of ranks 0, 1, 2 is wrong", culprit);
          ASSERT_NE(found.error().message.find(fmt::format(
                        "step 7: the state of the run is corrupt: {}: {}", tensor.name, who)),
                    std::string::npos)
              << found.error().message;
          std::vector<CorruptionAlarm::NamedRank> named = {{culprit, host_name()}};
          if (dp == 2) named = {{0, host_name()}, {1, host_name()}};
          ASSERT_TRUE(check.alarm());
          EXPECT_EQ(check.alarm()->ranks, named);
          EXPECT_EQ(check.alarm()->is_certain, dp > 2);
        }
      }
      EXPECT_TRUE(check.run(8).ok());
      EXPECT_FALSE(check.alarm());
    });
  }
}

class TrainerChecks : public testing::Test {
 protected:
  TrainerChecks()
      : root_((std::filesystem::temp_directory_path() /
               fmt::format("trireme-corruption-{}", ::getpid()))
                  .string()) {}
  ~TrainerChecks() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

class FlipsAfterStep : public RunObserver {
 public:
  FlipsAfterStep(Engine& engine, int64_t step) : engine_(engine), step_(step) {}
  void on_step(const StepReport& report) override {
    if (report.step == step_) flip_bit(state_tensors(engine_).front().tensor_N, 0, 3);
  }

 private:
  Engine& engine_;
  int64_t step_;
};

// A bit that flips between two checks is found before the next save, which is not made.
TEST_F(TrainerChecks, NoCheckpointHoldsStateAboutWhichTheRanksDisagree) {
  RunConfig config = tiny_run(2);
  config.run.steps = 10;
  config.run.check_state_every = 100;
  config.checkpoint.every = 2;
  const RunPlan plan = tiny_plan(config);
  std::vector<std::string> causes;
  std::mutex mutex;
  run_ranks(2, {}, [&](World& world) {
    const SyntheticSource source(1, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto).value().kernels, source);
    engine.init_params(1);
    FlipsAfterStep flips(engine, 3);
    const std::atomic<int> no_signals = 0;
    TrainerParts parts{.plan = plan, .engine = engine, .stop_signals = no_signals};
    if (world.rank() == 0) parts.observers = {&flips};
    Trainer trainer = Trainer::make(std::move(parts), [&](const TrainPosition& at) {
                        return SaveRequest{checkpoint_info(plan, at, "data"), {}, root_, ""};
                      }).value();
    const Result<TrainEnd> end = trainer.run({});
    const std::lock_guard lock(mutex);
    if (!end.ok()) causes.push_back(end.error().message);
  });
  ASSERT_EQ(causes.size(), 2u);
  for (const std::string& cause : causes) {
    EXPECT_EQ(cause.find("step 4: the state of the run is corrupt"), 0u) << cause;
  }
  EXPECT_EQ(find_latest_checkpoint(root_)->step, 2);
}

TEST(CorruptionChecks, NoFalseAlarmInAThousandSteps) {
  const CheckedSteps steps = run_checked(with_checks(tiny_run(2)), 1000);
  EXPECT_EQ(steps.alarms, std::vector<std::string>());
}

TEST(CorruptionInFull, DISABLED_NoFalseAlarmInAHundredThousandSteps) {
  RunConfig config = with_checks(tiny_run(2));
  const CheckedSteps steps = run_checked(config, 100'000);
  EXPECT_EQ(steps.alarms, std::vector<std::string>());
  EXPECT_EQ(steps.counts.state_checks, 100'000);
  EXPECT_EQ(steps.counts.replays, 100'000);
  EXPECT_GE(steps.counts.products, 100'000);
}

}  // namespace
}  // namespace trireme
