#include "train/replay_elsewhere.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "device/host.h"
#include "train/corruption_checks.h"
#include "train/corruption_fixture.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

struct Found {
  std::string alarm;  // of the checks, the same on all ranks
  int64_t step = 0;   // in which it came
  std::string why_not;
  std::optional<CorruptionAlarm> named;
};

using Named = std::vector<CorruptionAlarm::NamedRank>;

// The step in which a check raises an alarm, if one rank always computes with these kernels.
Found find_with(const RunConfig& config, int defective, const KernelTable& kernels,
                int64_t num_steps = 3) {
  const RunPlan plan = tiny_plan(config);
  const auto sequences = uint64_t(plan.global_sequences);
  Found found;
  std::mutex mutex;
  run_ranks(plan.num_ranks(), {}, [&](World& world) {
    const SyntheticSource source(1, plan.model.vocab_size);
    const bool is_defective = world.rank() == defective;
    Engine engine(plan, world, is_defective ? kernels : right_kernels(), source);
    engine.init_params(1);
    CorruptionChecks checks(engine, config.run);
    for (int64_t step = 1; step <= num_steps; ++step) {
      const uint64_t first = sequences * uint64_t(step - 1);
      checks.begin(step, first);
      checks.end(step, engine.step(first, 1e-3));
      const Status verdict = checks.verdict(step, false);
      if (verdict.ok()) continue;
      const std::lock_guard lock(mutex);
      if (found.step == 0) found = {verdict.error().message, step, "", checks.alarm()};
      EXPECT_EQ(verdict.error().message, found.alarm);
      ASSERT_TRUE(checks.alarm());
      EXPECT_EQ(checks.alarm()->step, step);
      EXPECT_EQ(checks.alarm()->check, CorruptionCheck::ReplayElsewhere);
      EXPECT_EQ(checks.alarm()->ranks, found.named->ranks);
      break;
    }
    const std::lock_guard lock(mutex);
    found.why_not = checks.why_not();
  });
  return found;
}

RunConfig replayed_elsewhere(int dp, int every = 1) {
  RunConfig config = tiny_run(dp);
  config.run.replay_elsewhere_every = every;
  return config;
}

std::string named(int rank) { return fmt::format("rank {} on host {}", rank, host_name()); }

constexpr auto kDefects = std::array{
    &defective_kernels<kSmallBit, MatmulForm::NT>, &defective_kernels<kSmallBit, MatmulForm::NN>,
    &defective_kernels<kSmallBit, MatmulForm::TN>, &defective_kernels<31, MatmulForm::NT>};

TEST(ReplayElsewhere, NamesTheOneOfThreeOrMoreRanksThatIsAlwaysWrong) {
  for (const int dp : {3, 4}) {
    for (int wrong = 0; wrong < dp; ++wrong) {
      const KernelTable& defect = kDefects[size_t(wrong) % kDefects.size()]();
      const Found found = find_with(replayed_elsewhere(dp), wrong, defect);
      EXPECT_EQ(found.step, 1);
      EXPECT_EQ(found.alarm.find(fmt::format("step 1: the state of the run is corrupt: {} is wrong",
                                             named(wrong))),
                0u)
          << found.alarm;
      EXPECT_EQ(found.alarm.find("nothing tells who is right"), std::string::npos) << found.alarm;
      EXPECT_NE(found.alarm.find("take host " + host_name() + " out"), std::string::npos);
      ASSERT_TRUE(found.named);
      EXPECT_EQ(found.named->ranks, (Named{{wrong, host_name()}}));
      EXPECT_TRUE(found.named->is_certain);
    }
  }
}

// The reason for this check: two computations of the same rank are the same, and so is the state
// of all ranks.
TEST(ReplayElsewhere, FindsWhatNeitherAReplayNorAComparisonOfStateCanFind) {
  RunConfig config = tiny_run(3);
  config.run.replay_every = config.run.check_state_every = 1;
  const KernelTable& defect = defective_kernels<kSmallBit, MatmulForm::NT>();
  EXPECT_EQ(find_with(config, 1, defect).alarm, "");
  config.run.replay_elsewhere_every = 2;
  const Found found = find_with(config, 1, defect);
  EXPECT_EQ(found.step, 2);
  EXPECT_NE(found.alarm.find(named(1) + " is wrong"), std::string::npos) << found.alarm;
  EXPECT_NE(found.alarm.find("no earlier step was compared"), std::string::npos) << found.alarm;
}

TEST(ReplayElsewhere, OfTwoRanksBothAreNamedUnlessAProductIsBeyondRounding) {
  const Found small =
      find_with(replayed_elsewhere(2), 1, defective_kernels<kSmallBit, MatmulForm::NT>());
  EXPECT_NE(small.alarm.find(fmt::format("{} or {} is wrong: they compute different gradients",
                                         named(0), named(1))),
            std::string::npos)
      << small.alarm;
  EXPECT_EQ(small.named->ranks, (Named{{0, host_name()}, {1, host_name()}}));
  EXPECT_FALSE(small.named->is_certain);
  for (int wrong = 0; wrong < 2; ++wrong) {
    const Found large =
        find_with(replayed_elsewhere(2), wrong, defective_kernels<kHighBit, MatmulForm::NT>());
    EXPECT_NE(large.alarm.find(fmt::format("corrupt: {} is wrong: others compute other gradients "
                                           "from the same samples, and its products are wrong",
                                           named(wrong))),
              std::string::npos)
        << large.alarm;
    EXPECT_EQ(large.named->ranks, (Named{{wrong, host_name()}}));
    EXPECT_TRUE(large.named->is_certain);
  }
}

// The wrong rank spoils the others of its pipeline and tp group, and no other replica.
TEST(ReplayElsewhere, OnlyRanksOfTheWrongReplicaAreNamed) {
  const auto check = [](auto&& set) {
    RunConfig config = some_run();
    config.parallel.dp = 3;
    config.batch.global_sequences = 6;
    config.run.replay_elsewhere_every = 1;
    set(config);
    const Mesh mesh = mesh_of(config.parallel);
    const int wrong = position_of(mesh, {.tp = 0, .cp = 0, .pp = mesh.pp - 1, .dp = 1});
    const Found found = find_with(config, wrong, defective_kernels<kSmallBit, MatmulForm::NT>(), 1);
    EXPECT_NE(found.alarm.find(named(wrong)), std::string::npos) << found.alarm;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      if (coords_of(mesh, rank).dp == 1) continue;
      EXPECT_EQ(found.alarm.find(named(rank)), std::string::npos) << found.alarm;
    }
  };
  check([](RunConfig& c) { c.parallel.pp = 2; });
  check([](RunConfig& c) { c.parallel.tp = 2; });
  check([](RunConfig& c) { c.parallel.zero = 3; });
}

// A fault that happens once, in the step itself, was either of the two that have computed it.
TEST(ReplayElsewhere, AFaultThatHappensOnceIsFoundAndItsRankIsASuspect) {
  const RunPlan plan = tiny_plan(tiny_run(3));
  run_ranks(3, {}, [&](World& world) {
    WatchedSource source(plan.model.vocab_size);
    Engine engine(plan, world, right_kernels(), source);
    engine.init_params(1);
    ReplayElsewhere replay(engine, 1);
    const std::vector<StateTensor> params = tensors_of_kind(state_tensors(engine), "");
    std::vector<uint64_t> addends;
    for (int64_t step = 1; step <= 6; ++step) {
      replay.compute(0);
      const bool is_culprit = step % 2 == 0 && world.rank() == int(step / 2) - 1;
      const Flip flip{params[2].tensor_N, 5, 29};
      int num_reads = 0;
      source.on_read = [&](uint64_t) {
        if (is_culprit && ++num_reads <= 2) flip.apply();
      };
      addends.clear();
      engine.hash_addends(&addends);
      const StepResult result = engine.step(0, 1e-3);
      engine.hash_addends(nullptr);
      source.on_read = {};
      const Status found = replay.compare(step, result, addends);
      ASSERT_EQ(found.ok(), step % 2 == 1);
      if (found.ok()) continue;
      const std::string& message = found.error().message;
      EXPECT_NE(message.find(named(int(step / 2) - 1)), std::string::npos) << message;
      EXPECT_NE(message.find(fmt::format("it was right in step {}", step - 1)), std::string::npos)
          << message;
      EXPECT_EQ(replay.alarm()->clean_step, step - 1);
    }
  });
}

// The loss of a rank is not in its addends.
TEST(ReplayElsewhere, ALossThatAloneDiffersIsFoundAndNobodyIsNamed) {
  const RunPlan plan = tiny_plan(tiny_run(3));
  run_ranks(3, {}, [&](World& world) {
    const SyntheticSource source(1, plan.model.vocab_size);
    Engine engine(plan, world, right_kernels(), source);
    engine.init_params(1);
    ReplayElsewhere replay(engine, 1);
    std::vector<uint64_t> addends;
    replay.compute(0);
    engine.hash_addends(&addends);
    StepResult result = engine.step(0, 1e-3);
    engine.hash_addends(nullptr);
    if (world.rank() == 1) result.loss_sum = std::nextafter(result.loss_sum, 0.0);
    const Status found = replay.compare(1, result, addends);
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.error().message.find("an unknown rank is wrong: the losses of the same"),
              std::string::npos)
        << found.error().message;
    EXPECT_TRUE(replay.alarm()->ranks.empty());
    EXPECT_FALSE(replay.alarm()->is_certain);
  });
}

TEST(ReplayElsewhere, SaysWhyItCannotRun) {
  RunConfig config = replayed_elsewhere(1);
  EXPECT_NE(
      find_with(config, -1, right_kernels()).why_not.find("this needs parallel.dp of at least 2"),
      std::string::npos);
  // All ranks share the experts, so nobody else holds them.
  config = some_run();
  config.model.family = ModelFamily::Moe;
  config.model.tied_head = false;
  config.model.d_ff = 16;
  config.model.experts = 4;
  config.parallel.dp = config.parallel.ep = 2;
  config.run.replay_elsewhere_every = 1;
  const Found shared = find_with(config, -1, right_kernels());
  EXPECT_EQ(shared.alarm, "");
  EXPECT_NE(shared.why_not.find("at least 2 groups that hold them all"), std::string::npos);
  // Kernels that round differently would be false alarms.
  const Found mixed = find_with(replayed_elsewhere(2), 1, reference_kernels());
  EXPECT_EQ(mixed.alarm, "");
  EXPECT_NE(mixed.why_not.find("set run.isa to an instruction set that all hosts have"),
            std::string::npos)
      << mixed.why_not;
}

}  // namespace
}  // namespace trireme
