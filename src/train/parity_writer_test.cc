#include "train/parity_writer.h"

#include <chrono>
#include <thread>

#include "checkpoint/background_job.h"
#include "checkpoint/held_part.h"
#include "data/synthetic_source.h"
#include "train/kernel_choice.h"
#include "train/memory_saver.h"
#include "train/run_save_fixture.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

// Rank 0 waits for rank 1 in its job, as both ranks wait for their jobs. `late` is the job of rank
// 1 before it comes.
void wait_for_late_rank(const std::function<void(World&, Progress&)>& late) {
  run_ranks(2, [&](World& world) {
    const HostPlaces places = gather_hosts(world.group(), {"here", "/tmp"});
    ParityWriter parity(world.group(), places, 0, {}, 0.2);
    const std::atomic<bool> is_abandoned = false;
    BackgroundJob job;
    job.start([&](Progress& progress) -> Result<std::string> {
      if (world.rank() == 1) late(world, progress);
      EXPECT_TRUE(parity.all_succeed(true, progress, is_abandoned));
      return std::string();
    });
    job.wait(world.group().progress());
    const Result<std::string> done = job.take();
    if (!done.ok()) throw DeviceError(done.error().message);
  });
}

// It takes longer than the deadline, but is never silent for so long.
TEST(ParityWriter, WaitsForARankThatMakesProgress) {
  wait_for_late_rank([](World&, Progress& progress) {
    for (int i = 0; i < 300; ++i) {
      std::this_thread::sleep_for(10ms);
      progress.advance();
    }
  });
}

TEST(ParityWriter, NamesARankThatMakesNoProgress) {
  try {
    wait_for_late_rank([](World& world, Progress&) {
      while (!world.aborted()) std::this_thread::sleep_for(1ms);
    });
    FAIL() << "nobody has noticed";
  } catch (const RankError& failure) {
    EXPECT_EQ(failure.rank(), 1);
    EXPECT_NE(failure.error().message.find("without progress for rank 1"), std::string::npos)
        << failure.error().message;
  }
}

class TwoHostsTest : public SaveTest {};

// A host whose part is complete removes it if another host has failed, so nobody tries it.
TEST_F(TwoHostsTest, APartOfACheckpointThatAnotherHostCouldNotMakeIsRemoved) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.checkpoint.memory_every = 1;
  const RunPlan plan = plan_of(config);
  for (const char* host : {"host0", "host1"}) fs::create_directories(path(host));
  std::vector<std::string> messages;
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const std::string host = "host" + std::to_string(world.rank());
    MemorySaver memory(
        engine, {.place = {host, path(host)}, .job = 5, .parity = {.is_auto = true}},
        [&](const TrainPosition& at) {
          SaveRequest request = request_in(path(host), plan, at);
          request.publish = [&, step = at.step](const std::function<Status()>& rename) -> Status {
            if (step == 2 && world.rank() == 1) return damaged("broken");
            return rename();
          };
          return request;
        },
        [&](const std::string& message) {
          if (world.rank() == 0) messages.push_back(message);
        });
    for (const int64_t step : {1, 2}) {
      memory.start({.step = step});
      memory.finish();
      EXPECT_EQ(memory.newest_step(), step == 1 ? 1 : -1);
    }
    EXPECT_EQ(memory.saved(), 1);
  });
  for (const char* host : {"host0", "host1"}) {
    EXPECT_TRUE(fs::exists(path(host) + "/step-000001/index.json"));
    EXPECT_FALSE(fs::exists(path(host) + "/step-000002"));
  }
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(messages[0].starts_with("checkpoints in memory end: ")) << messages[0];
}

}  // namespace
}  // namespace trireme
