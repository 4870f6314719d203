// Checkpoints in memory of ranks on several hosts, which keep parity of each other.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "checkpoint/held_part.h"
#include "checkpoint/parity_file.h"
#include "data/synthetic_source.h"
#include "schema/parity_code.h"
#include "schema/run_config_text.h"
#include "train/kernel_choice.h"
#include "train/memory_saver.h"
#include "train/run_save_fixture.h"

namespace trireme {
namespace {

using MemorySaveHostsTest = SaveTest;

// Trains three steps on ranks that lie on `host_of`, and keeps each of them in memory.
struct KeptOnHosts {
  std::vector<double> losses;
  std::vector<int64_t> sent_bytes;  // [rank]
  std::string differences;
};

KeptOnHosts keep_on_hosts(const RunPlan& plan, const std::string& root,
                          const std::vector<int>& host_of) {
  KeptOnHosts kept{
      .losses = {}, .sent_bytes = std::vector<int64_t>(host_of.size()), .differences = ""};
  std::mutex mutex;
  run_ranks(plan.num_ranks(), [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const std::string host = "host" + std::to_string(host_of[size_t(world.rank())]);
    const MemoryTier tier{.place = {host, root + "/" + host},
                          .job = 5,
                          .epoch = 2,
                          .parity = parse_parity(plan.config.checkpoint.parity).value()};
    MemorySaver memory(
        engine, tier,
        [&](const TrainPosition& at) { return request_in(root + "/" + host, plan, at); },
        [](const std::string& message) { ADD_FAILURE() << message; });
    for (int64_t step = 1; step <= 3; ++step) {
      const auto first_sample = uint64_t((step - 1) * plan.global_sequences);
      const StepResult result = engine.step(first_sample, 1e-2, false, {});
      memory.finish();
      if (world.rank() == 0) kept.losses.push_back(result.loss_sum);
      memory.start({.step = step});
    }
    memory.finish();
    const std::lock_guard lock(mutex);
    kept.sent_bytes[size_t(world.rank())] = memory.sent_bytes();
    if (engine.peak_bytes() != engine.rank_plan().memory.peak_bytes) {
      kept.differences += "the peak is not the planned one; ";
    }
  });
  return kept;
}

std::vector<RunConfig> layouts_on_hosts() {
  std::vector<RunConfig> all;
  for (const int zero : {0, 1, 3}) {
    RunConfig config = saving(some_run());
    config.parallel.dp = 4;
    config.batch.global_sequences = 4;
    config.parallel.zero = zero;
    config.checkpoint.memory_every = 1;
    all.push_back(config);
  }
  all.push_back(all[1]);
  all.back().parallel.dp = all.back().parallel.pp = 2;
  return all;
}

// Each host has its ranks' shards and intact parity, and a rank sends its shard once for every
// parity piece of its group: the copy of two hosts, and 2+1 over three of them.
TEST_F(MemorySaveHostsTest, HostsKeepPartsAndParityOfEachOther) {
  int number = 0;
  for (const RunConfig& config : layouts_on_hosts()) {
    SCOPED_TRACE(to_toml(config));
    const RunPlan plan = plan_of(config);
    RunConfig without = config;
    without.checkpoint.memory_every = 0;
    EXPECT_EQ(plan.arena_bytes() - plan_of(without).arena_bytes(), 4 * kMoveBufferBytes);
    std::vector<double> losses;
    for (const std::vector<int>& host_of :
         {std::vector<int>{0, 0, 1, 1}, {0, 1, 1, 2}, {0, 0, 0, 0}}) {
      const std::string root = path(std::to_string(number++));
      for (const int host : host_of) fs::create_directories(root + "/host" + std::to_string(host));
      const KeptOnHosts kept = keep_on_hosts(plan, root, host_of);
      EXPECT_EQ(kept.differences, "");
      if (losses.empty()) losses = kept.losses;
      EXPECT_EQ(kept.losses, losses);
      const int num_parity = host_of.back() == 0 ? 0 : 1;
      for (int rank = 0; rank < 4; ++rank) {
        const std::string folder = root + "/host" + std::to_string(host_of[size_t(rank)]);
        std::vector<std::string> problems;
        const std::vector<FoundPart> parts = find_parts(folder, 5, problems);
        ASSERT_EQ(parts.size(), 2u);
        EXPECT_EQ(parts[0].record.step, 3);
        EXPECT_EQ(parts[0].record.num_parity, num_parity);
        for (const FoundPart& part : parts) {
          ASSERT_TRUE(check_part(part, 1, nullptr, problems).ok());
        }
        EXPECT_EQ(problems, std::vector<std::string>{});
        const std::string shard = folder + "/step-000003/" + shard_file_name(rank, 0);
        const int64_t bytes = fs::exists(shard) ? int64_t(fs::file_size(shard)) : 0;
        EXPECT_EQ(kept.sent_bytes[size_t(rank)], 3 * num_parity * bytes);
      }
    }
    // Two hosts have copies of each other.
    const std::string root = path(std::to_string(number - 3));
    for (int rank = 0; rank < 4; ++rank) {
      const std::string own = root + "/host" + std::to_string(rank / 2) + "/step-000003/";
      const std::string other = root + "/host" + std::to_string(1 - rank / 2) + "/step-000003/";
      if (!fs::exists(own + shard_file_name(rank, 0))) continue;
      const auto shards = files_below(own), copies = files_below(other);
      EXPECT_TRUE(copies.at(parity_file_name(rank % 2, 0))
                      .starts_with(shards.at(shard_file_name(rank, 0))));
    }
  }
}

// Names checkpoints only when it may.
class Gate {
 public:
  explicit Gate(int num_ranks) : num_ranks_(num_ranks) {}
  // This rank is about to ask whether its checkpoint is complete.
  void note_update() {
    const std::lock_guard lock(mutex_);
    ++num_updates_;
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  // Returns once all ranks have come to the gate with a checkpoint that it holds.
  void await_held() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(1), [&] { return num_held_ == num_ranks_; }));
  }
  // Fails after a minute. Waits until the update of the step after `step` has begun on all ranks,
  // and some time longer; from `held_step` on, until the gate is open.
  void pass(int64_t step, int64_t held_step) {
    std::unique_lock lock(mutex_);
    if (step == held_step) {
      ++num_held_;
      changed_.notify_all();
    }
    const auto may_pass = [&] {
      return step >= held_step ? is_open_ : num_updates_ >= (step + 1) * num_ranks_;
    };
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), may_pass)) << step;
    if (step >= held_step) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

 private:
  const int num_ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t num_updates_ = 0;
  int num_held_ = 0;
  bool is_open_ = false;
};

std::vector<double> losses_without(const RunPlan& plan, int64_t steps) {
  std::vector<double> losses;
  run_ranks(plan.num_ranks(), [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    for (int64_t step = 1; step <= steps; ++step) {
      const double loss = engine.step(uint64_t((step - 1) * plan.global_sequences), 1e-2).loss_sum;
      if (world.rank() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

// If parity takes longer than a step, training waits for it three times. Later it goes on, and
// checkpoints are skipped until the pending one is complete. The committed one stays intact, and
// the numbers are those of a run that keeps nothing.
TEST_F(MemorySaveHostsTest, ACheckpointThatIsLateIsNotWaitedForAndTheNextOnesAreSkipped) {
  constexpr int64_t kSteps = 9, kHeldStep = 4, kOpenAfter = 8;
  std::vector<RunConfig> configs = layouts_on_hosts();
  configs.resize(1);
  configs[0].parallel.dp = 2;
  configs.push_back(configs[0]);
  configs[1].precision.compute = ComputeChoice::Bf16;
  configs[1].parallel.zero = 1;
  for (const RunConfig& config : configs) {
    SCOPED_TRACE(to_toml(config));
    const RunPlan plan = plan_of(config);
    const std::string root = path(config.precision.compute == ComputeChoice::Bf16 ? "a" : "b");
    for (const char* host : {"/host0", "/host1"}) fs::create_directories(root + host);
    std::vector<double> losses;
    std::vector<std::string> messages;
    Gate gate(2);
    run_ranks(2, [&](World& world) {
      const SyntheticSource source(3, plan.model.vocab_size);
      Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
      engine.init_params(1);
      const std::string host = "host" + std::to_string(world.rank());
      const std::string folder = root + "/" + host;
      MemorySaver memory(
          engine, {.place = {host, folder}, .job = 5, .parity = {.is_auto = true}},
          [&](const TrainPosition& at) {
            SaveRequest request = request_in(folder, plan, at);
            request.publish = [&gate, step = at.step](const std::function<Status()>& rename) {
              gate.pass(step, kHeldStep);
              return rename();
            };
            return request;
          },
          [&](const std::string& message) {
            if (world.rank() == 0) messages.push_back(message);
          });
      engine.call_before_update(&gate, [&] { gate.note_update(); });
      for (int64_t step = 1; step <= kSteps; ++step) {
        memory.expect_start(true);
        const double loss =
            engine.step(uint64_t((step - 1) * plan.global_sequences), 1e-2).loss_sum;
        if (world.rank() == 0) losses.push_back(loss);
        const bool is_held = step > kHeldStep && step <= kOpenAfter;
        EXPECT_EQ(memory.start({.step = step}), !is_held) << step;
        // Until its job has made the third file, an update would wait for this checkpoint.
        if (step == kHeldStep) gate.await_held();
        if (is_held) {
          std::vector<std::string> problems;
          const std::vector<FoundPart> parts = find_parts(folder, 5, problems);
          ASSERT_FALSE(parts.empty());
          EXPECT_EQ(parts[0].record.step, kHeldStep - 1);
          EXPECT_EQ(memory.most_redone(step), step - (kHeldStep - 1));
          EXPECT_TRUE(check_part(parts[0], 1, nullptr, problems).ok());
          EXPECT_EQ(problems, std::vector<std::string>{});
        }
        world.group().barrier();
        if (step != kOpenAfter) continue;
        gate.open();
        memory.finish();
        EXPECT_EQ(memory.saved(), kHeldStep);
      }
      memory.finish();
      engine.call_before_update(&gate, {});
      EXPECT_EQ(memory.skipped(), kOpenAfter - kHeldStep);
      EXPECT_EQ(memory.most_redone(kSteps), kOpenAfter - kHeldStep + 1);
      EXPECT_GE(memory.most_apart(), kOpenAfter + 1 - kHeldStep);
      std::vector<std::string> problems;
      const std::vector<FoundPart> parts = find_parts(folder, 5, problems);
      ASSERT_FALSE(parts.empty());
      EXPECT_GE(parts[0].record.step, kOpenAfter + 1);
      EXPECT_TRUE(check_part(parts[0], 1, nullptr, problems).ok());
    });
    EXPECT_EQ(losses, losses_without(plan, kSteps));
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_TRUE(messages[0].starts_with("the checkpoint of step 4 in memory takes longer"))
        << messages[0];
  }
}

}  // namespace
}  // namespace trireme
