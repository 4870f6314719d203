#include <mutex>
#include <set>
#include <thread>

#include "checkpoint/held_part.h"
#include "data/synthetic_source.h"
#include "schema/run_config_text.h"
#include "train/kernel_choice.h"
#include "train/memory_saver.h"
#include "train/planned_shard.h"
#include "train/run_save_fixture.h"

namespace trireme {
namespace {

using MemorySaveTest = SaveTest;

// The newest checkpoint in memory and the one before it exist, until the next but one begins.
TEST_F(MemorySaveTest, CheckpointsInMemoryReplaceEachOtherAndEndAfterAFailure) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  std::vector<std::string> messages;
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    std::string folder = path("run");
    MemorySaver memory(
        engine, on_one_host(folder),
        [&](const TrainPosition& at) { return request_in(folder, plan, at); },
        [&](const std::string& message) {
          if (world.rank() == 0) messages.push_back(message);
        });
    for (const int64_t step : {1, 2, 3}) {
      memory.start({.step = step});
      memory.finish();
    }
    EXPECT_EQ(memory.saved(), 3);
    world.group().barrier();
    EXPECT_FALSE(fs::exists(path("run/step-000001")));
    for (const char* name : {"run/step-000002", "run/step-000003"}) {
      EXPECT_TRUE(Checkpoint::open(path(name))->verify(1).empty());
    }
    world.group().barrier();
    folder = path("none/none");
    for (const int64_t step : {4, 5}) {
      memory.start({.step = step});
      memory.finish();
    }
    EXPECT_EQ(memory.saved(), 3);
    EXPECT_EQ(memory.newest_step(), -1);  // the promise ends with them
  });
  EXPECT_TRUE(Checkpoint::open(path("run/step-000003"))->verify(1).empty());
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].starts_with("checkpoints in memory end: ")) << messages[0];
}

std::vector<RunConfig> updates_with_copies() {
  std::vector<RunConfig> all;
  const auto add = [&](auto&& set) {
    all.push_back(saving(some_run()));
    all.back().model.layers = 1;
    all.back().batch.global_sequences = 2;
    all.back().precision.compute = ComputeChoice::Bf16;
    set(all.back());
  };
  add([](RunConfig&) {});
  add([](RunConfig& c) { c.precision.compute = ComputeChoice::Fp32; });
  add([](RunConfig& c) { c.optim.moment_dtype = StateChoice::Bf16; });
  add([](RunConfig& c) { c.optim.name = OptimizerKind::Sgd; });
  add([](RunConfig& c) {
    c.optim.name = OptimizerKind::Muon;
    c.optim.qk_clip = 1e-3;
  });
  add([](RunConfig& c) { c.optim.frozen = "embedding.*"; });
  add([](RunConfig& c) {
    c.parallel.dp = 2;
    c.parallel.zero = 1;
  });
  return all;
}

// trireme plan says what a rank holds of a checkpoint, on every layout and for every kind of state.
TEST_F(MemorySaveTest, TheFilesHaveThePlannedBytes) {
  std::vector<RunConfig> configs = saving_layouts();
  for (const RunConfig& config : updates_with_copies()) configs.push_back(config);
  for (RunConfig& config : configs) {
    config.checkpoint.memory_every = 1;
    const RunPlan plan = plan_of(config);
    run_ranks(plan.num_ranks(), [&](World& world) {
      const SyntheticSource source(3, plan.model.vocab_size);
      Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
      const StateShard shard(checkpoint_pieces(engine), world.rank());
      const RankPlan& rank = engine.rank_plan();
      EXPECT_EQ(planned_shard_bytes(rank, plan.shape.compute), shard.bytes()) << to_toml(config);
      EXPECT_EQ(memory_checkpoint_bytes(plan, rank), 2 * shard.bytes());
    });
  }
}

// The newest checkpoint in memory is intact, and is that on disk, while the next update writes the
// state elsewhere. The numbers are those of a run that keeps nothing in memory.
TEST_F(MemorySaveTest, AnUpdateLeavesTheNewestCheckpointInMemoryAsItIs) {
  int number = 0;
  for (const RunConfig& config : updates_with_copies()) {
    SCOPED_TRACE(to_toml(config));
    const RunPlan plan = plan_of(config);
    std::vector<double> wanted;
    for (const int64_t every : {0, 1, 2}) {
      const std::string root = path(std::to_string(number++));
      fs::create_directories(root);
      std::vector<double> losses;
      run_ranks(plan.num_ranks(), [&](World& world) {
        const SyntheticSource source(3, plan.model.vocab_size);
        Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
        engine.init_params(1);
        const auto fail = [](const std::string& message) { ADD_FAILURE() << message; };
        const auto request = [&](const std::string& folder) {
          return [&, folder](const TrainPosition& at) { return request_in(folder, plan, at); };
        };
        CheckpointSaver disk(engine, request(root + "/disk"), {});
        MemorySaver memory(engine, on_one_host(root + "/memory"), request(root + "/memory"), fail);
        std::string newest;
        for (int64_t step = 1; step <= 5; ++step) {
          const bool is_due = every > 0 && step % every == 0;
          memory.expect_start(is_due);
          const auto first = uint64_t((step - 1) * plan.global_sequences);
          const double loss = engine.step(first, 1e-2).loss_sum;
          if (world.rank() == 0) losses.push_back(loss);
          world.group().barrier();
          if (!newest.empty()) {
            EXPECT_TRUE(Checkpoint::open(root + "/memory/" + newest)->verify(1).empty());
            auto in_memory = files_below(root + "/memory/" + newest);
            in_memory.erase(kHostsFile);
            EXPECT_TRUE(in_memory == files_below(root + "/disk/" + newest)) << newest;
          }
          world.group().barrier();
          if (!is_due) continue;
          memory.start({.step = step});
          memory.finish();
          EXPECT_TRUE(disk.save({.step = step}).ok());
          newest = step_folder_name(step);
        }
      });
      if (every == 0) wanted = losses;
      EXPECT_EQ(losses, wanted) << every;
    }
  }
}

// A run that goes back to a step on disk has no checkpoint in memory until the next step is kept
// there. That one is intact and has the state of the new steps.
TEST_F(MemorySaveTest, NoCheckpointInMemoryLiesOnAWayThatTheRunHasLeft) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const auto request = [&](const std::string& folder) {
      return [&, folder](const TrainPosition& at) { return request_in(folder, plan, at); };
    };
    CheckpointSaver disk(engine, request(path("disk")), {});
    MemorySaver memory(engine, on_one_host(path("memory")), request(path("memory")),
                       [](const std::string& message) { ADD_FAILURE() << message; });
    memory.remove_all();  // there is none yet
    const auto train_step = [&](int64_t step) {
      memory.expect_start(true);
      engine.step(uint64_t((step - 1) * plan.global_sequences), 1e-2);
    };
    train_step(1);
    memory.start({.step = 1});
    EXPECT_TRUE(disk.save({.step = 1}).ok());
    train_step(2);
    memory.start({.step = 2});
    train_step(3);
    world.group().barrier();
    EXPECT_TRUE(fs::exists(path("memory/step-000002")));
    fs::create_directories(path("memory/step-000003"));  // of a former epoch
    world.group().barrier();
    memory.remove_all();
    EXPECT_TRUE(restore(*Checkpoint::open(path("disk/step-000001")), plan, engine).ok());
    world.group().barrier();
    for (const auto& left : fs::directory_iterator(path("memory"))) {
      EXPECT_FALSE(left.is_directory()) << left.path();
    }
    EXPECT_EQ(memory.newest_step(), -1);
    world.group().barrier();
    train_step(2);
    memory.start({.step = 2});
    memory.finish();
    EXPECT_TRUE(disk.save({.step = 2}).ok());
    train_step(3);  // writes the file that a removed checkpoint of step 2 had
  });
  EXPECT_TRUE(Checkpoint::open(path("memory/step-000002"))->verify(1).empty());
  auto in_memory = files_below(path("memory/step-000002"));
  in_memory.erase(kHostsFile);
  EXPECT_TRUE(in_memory == files_below(path("disk/step-000002")));
}

// Making a thread for every checkpoint would cost more than half of what one costs.
TEST_F(MemorySaveTest, AllWorkBesideTrainingIsDoneByOneThreadOfTheFirstRank) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  std::mutex mutex;
  std::set<std::thread::id> publishing, training;
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const auto note = [&](std::set<std::thread::id>& threads) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    };
    note(training);
    MemorySaver memory(
        engine, on_one_host(path("run")),
        [&](const TrainPosition& at) {
          SaveRequest request = request_in(path("run"), plan, at);
          request.publish = [&](const std::function<Status()>& rename) {
            note(publishing);
            return rename();
          };
          return request;
        },
        [](const std::string& message) { ADD_FAILURE() << message; });
    for (int64_t step = 1; step <= 6; ++step) {
      memory.expect_start(true);
      engine.step(uint64_t((step - 1) * plan.global_sequences), 1e-2);
      EXPECT_TRUE(memory.start({.step = step}));
    }
    memory.finish();
    EXPECT_EQ(memory.saved(), 6);
    EXPECT_EQ(memory.most_apart(), 1);
    EXPECT_EQ(memory.most_redone(6), 1);
  });
  EXPECT_EQ(publishing.size(), 1u);
  for (const std::thread::id& thread : publishing) EXPECT_FALSE(training.contains(thread));
}

}  // namespace
}  // namespace trireme
