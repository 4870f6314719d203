#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "comm/world.h"
#include "data/synthetic_source.h"
#include "planner/make_plan.h"
#include "train/kernel_choice.h"
#include "train/memory_saver.h"
#include "train/run_fixture.h"
#include "train/run_state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 5, kKilledIn = 3;

// The kernel of the update in this process, which kills the process after so many calls.
decltype(KernelTable::adamw) whole_adamw = nullptr;
std::atomic<int64_t> calls_left = -1;  // negative: it counts, and nothing is killed

void adamw_until_killed(Stream& stream, const AdamWArgs& args) {
  whole_adamw(stream, args);
  if (--calls_left == 0) ::kill(::getpid(), SIGKILL);
}

class KilledUpdate : public testing::Test {
 protected:
  KilledUpdate() : plan_(some_plan()) {
    const fs::path memory = "/dev/shm";
    root_ = (fs::exists(memory) ? memory : fs::temp_directory_path()) /
            ("trireme-killed-update-" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  ~KilledUpdate() override { fs::remove_all(root_); }

  static RunPlan some_plan() {
    RunConfig config = some_run();
    config.model.layers = 1;
    config.batch.global_sequences = 2;
    config.precision.compute = ComputeChoice::Bf16;
    config.parallel.dp = 2;
    config.parallel.zero = 1;
    config.run.steps = kSteps;
    config.checkpoint.memory_every = 1;
    Result<RunPlan> plan = make_plan(config, {});
    TRIREME_CHECK(plan.ok(), plan.error().message);
    return std::move(*plan);
  }

  static std::string checkpoint_in(const std::string& folder, int64_t step) {
    return folder + "/" + step_folder_name(step);
  }

  // Trains to the last step from the checkpoint, or from the start if it is "". Keeps every step
  // in memory. In step kKilledIn, the call number `killed_at` of the kernel kills the process.
  // Returns the losses of its steps.
  std::vector<double> train(const std::string& folder, const std::string& checkpoint,
                            int64_t killed_at) const {
    KernelTable kernels = *choose_kernels(IsaChoice::Auto)->kernels;
    whole_adamw = kernels.adamw;
    kernels.adamw = adamw_until_killed;
    std::vector<double> losses;
    run_ranks(plan_.num_ranks(), [&](World& world) {
      const SyntheticSource source(3, plan_.model.vocab_size);
      Engine engine(plan_, world, kernels, source);
      engine.init_params(1);
      int64_t done = 0;
      if (!checkpoint.empty()) {
        const auto position = restore(*Checkpoint::open(checkpoint), plan_, engine);
        TRIREME_CHECK(position.ok(), position.error().message);
        done = position->step;
        engine.optimizer().set_num_updates(position->num_updates);
      }
      const MemoryTier tier{.place = {"here", folder}, .epoch = checkpoint.empty() ? 1u : 2u};
      MemorySaver memory(
          engine, tier,
          [&](const TrainPosition& at) {
            return SaveRequest{checkpoint_info(plan_, at, "data"), {}, folder, ""};
          },
          [](const std::string& message) { ADD_FAILURE() << message; });
      for (int64_t step = done + 1; step <= kSteps; ++step) {
        world.group().barrier();
        if (world.rank() == 0 && step == kKilledIn) calls_left = killed_at;
        memory.expect_start(true);
        const auto first = uint64_t((step - 1) * plan_.global_sequences);
        const double loss = engine.step(first, 1e-2).loss_sum;
        if (world.rank() == 0) losses.push_back(loss);
        memory.start({.step = step, .num_updates = engine.optimizer().num_updates()});
      }
      memory.finish();
    });
    return losses;
  }

  std::string path(const std::string& name) const { return (root_ / name).string(); }

  const RunPlan plan_;
  fs::path root_;
};

// Returns the checksums of all tensors' parts.
std::map<std::string, std::vector<uint64_t>> checksums_of(const std::string& folder) {
  std::map<std::string, std::vector<uint64_t>> all;
  const auto checkpoint = Checkpoint::open(folder);
  TRIREME_CHECK(checkpoint.ok(), "a checkpoint of the last step");
  for (const auto& [name, tensor] : checkpoint->index().contents.tensors) {
    for (const StoredSlice& slice : tensor.slices) all[name].push_back(slice.checksum);
  }
  return all;
}

// A process that is killed within an update, after any number of the parameters, leaves the
// checkpoint of the step before. A run that resumes from it cannot be told from one that was never
// killed, by its losses or by its state.
TEST_F(KilledUpdate, LeavesTheStepBeforeItFromWhichTheRunGoesOnBitForBit) {
  const std::vector<double> wanted = train(path("calm"), "", -1);
  const auto state = checksums_of(checkpoint_in(path("calm"), kSteps));
  ASSERT_EQ(wanted.size(), size_t(kSteps));
  const int64_t num_calls = (-1 - calls_left) / (kSteps - kKilledIn + 1);
  ASSERT_GT(num_calls, 4);
  for (const int64_t killed_at : {int64_t{1}, num_calls / 2, num_calls}) {
    SCOPED_TRACE(killed_at);
    const std::string folder = path(std::to_string(killed_at));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      train(folder, "", killed_at);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;

    const std::string newest = checkpoint_in(folder, kKilledIn - 1);
    EXPECT_FALSE(fs::exists(checkpoint_in(folder, kKilledIn)));
    EXPECT_TRUE(Checkpoint::open(newest)->verify(1).empty());
    const std::vector<double> losses = train(folder, newest, -1);
    EXPECT_EQ(losses, std::vector<double>(wanted.begin() + kKilledIn - 1, wanted.end()));
    EXPECT_EQ(checksums_of(checkpoint_in(folder, kSteps)), state);
  }
}

}  // namespace
}  // namespace trireme
