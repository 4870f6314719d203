#include "train/run_save.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>

#include "base/align.h"
#include "checkpoint/held_part.h"
#include "checkpoint/parity_file.h"
#include "data/synthetic_source.h"
#include "planner/make_plan.h"
#include "planner/plan_warnings.h"
#include "schema/parity_code.h"
#include "schema/run_config_text.h"
#include "schema/workspace.h"
#include "train/checkpoint_saver.h"
#include "train/kernel_choice.h"
#include "train/memory_saver.h"
#include "train/run_fixture.h"
#include "train/run_state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class RunSaveTest : public testing::Test {
 protected:
  RunSaveTest() {
    const fs::path memory = "/dev/shm";  // because a save syncs many small files
    root_ = (fs::exists(memory) ? memory : fs::temp_directory_path()) /
            ("trireme-run-save-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~RunSaveTest() override { fs::remove_all(root_); }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  CheckpointSaver::MakeRequest requests(const RunPlan& plan) const {
    return [this, &plan](const TrainPosition& at) {
      return SaveRequest{checkpoint_info(plan, at, "data"), {}, path("run"), ""};
    };
  }

  fs::path root_;
};

class Messages : public RunObserver {
 public:
  void on_checkpoint(const CheckpointReport& report) override {
    saved_steps.push_back(report.step);
  }
  void on_message(std::string_view text) override { texts.emplace_back(text); }
  std::vector<int64_t> saved_steps;
  std::vector<std::string> texts;
};

RunConfig saving(RunConfig config) {
  config.run.steps = 100;
  config.checkpoint.every = 10;
  return config;
}

std::vector<RunConfig> saving_layouts() {
  std::vector<RunConfig> all;
  const auto add = [&](auto&& set) {
    all.push_back(saving(some_run()));
    set(all.back());
  };
  add([](RunConfig& c) {  // so large that a step would overtake its copy, if it could
    c.model.layers = 1;
    c.model.d_model = 384;
    c.model.seq_len = 4;
    c.batch.global_sequences = 1;
  });
  for (const int zero : {0, 1, 2, 3}) {
    add([&](RunConfig& c) {
      c.parallel.dp = 2;
      c.parallel.zero = zero;
      if (zero == 2) c.precision.compute = ComputeChoice::Bf16;
    });
  }
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::ZbH2;
    c.optim.post_validate = true;
    c.optim.clip_norm = 1e3;
  });
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::Dualpipe;
  });
  add([](RunConfig& c) { c.parallel.tp = 2; });
  add([](RunConfig& c) { c.parallel.cp = 2; });
  add([](RunConfig& c) {
    c.model.family = ModelFamily::Moe;
    c.model.tied_head = false;
    c.model.d_ff = 16;
    c.model.experts = 4;
    c.parallel.dp = c.parallel.ep = 2;
  });
  return all;
}

std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), folder).string()] =
        std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

RunPlan plan_of(const RunConfig& config) {
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return std::move(*plan);
}

struct Observed {
  std::vector<double> losses;
  int64_t buffer_bytes = 0;
  std::string differences;
};

SaveRequest request_in(const std::string& folder, const RunPlan& plan, const TrainPosition& at) {
  return {checkpoint_info(plan, at, "data"), {}, folder, ""};
}

MemoryTier on_one_host(const std::string& folder) { return {.place = {"here", folder}}; }

// Trains five steps, and saves after the second beside the third and the fourth if `saves`, on disk
// and in memory.
Observed train(const RunPlan& plan, const std::string& root, bool saves) {
  const KernelTable& kernels = *choose_kernels(IsaChoice::Auto)->kernels;
  const SyntheticSource source(3, plan.model.vocab_size);
  Observed observed;
  std::mutex mutex;
  run_ranks(plan.num_ranks(), [&](World& world) {
    Engine engine(plan, world, kernels, source);
    engine.init_params(1);
    std::string folder = root + "/waited";
    CheckpointSaver saver(
        engine, [&](const TrainPosition& at) { return request_in(folder, plan, at); }, {});
    MemorySaver memory(
        engine, on_one_host(root + "/memory"),
        [&](const TrainPosition& at) { return request_in(root + "/memory", plan, at); },
        [](const std::string& message) { ADD_FAILURE() << message; });
    for (int64_t step = 1; step <= 5; ++step) {
      const auto first_sample = [&](int64_t of) {
        return uint64_t((of - 1) * plan.global_sequences);
      };
      std::optional<uint64_t> next;
      if (step < 5) next = first_sample(step + 1);
      memory.expect_start(saves && step == 2);
      const StepResult result = engine.step(first_sample(step), 1e-2, false, next);
      saver.advance();
      memory.finish();
      if (world.rank() == 0) observed.losses.push_back(result.loss_sum);
      if (step != 2 || !saves) continue;
      const TrainPosition position{.step = step};
      const Status saved = saver.save(position);
      TRIREME_CHECK(saved.ok(), saved.error().message);
      folder = root + "/beside";
      saver.start(position);
      memory.start(position);
    }
    const Status end = saver.finish();
    const std::lock_guard lock(mutex);
    if (!end.ok()) observed.differences += end.error().message;
    observed.buffer_bytes += int64_t(engine.snapshot_memory().size());
    if (engine.peak_bytes() != engine.rank_plan().memory.peak_bytes) {
      observed.differences += "the peak is not the planned one; ";
    }
  });
  return observed;
}

TEST_F(RunSaveTest, BesideTrainingWritesTheBytesOfASaveForWhichTrainingWaits) {
  int number = 0;
  for (const RunConfig& config : saving_layouts()) {
    SCOPED_TRACE(to_toml(config));
    const std::string root = path(std::to_string(number++));
    fs::create_directories(root);
    const RunPlan plan = plan_of(config);
    EXPECT_TRUE(plan.takes_snapshots);
    const Observed saved = train(plan, root, true);
    EXPECT_EQ(saved.differences, "");
    const auto waited = files_below(root + "/waited"), beside = files_below(root + "/beside");
    EXPECT_GE(waited.size(), 2u);
    EXPECT_TRUE(beside == waited);
    auto in_memory = files_below(root + "/memory");
    EXPECT_EQ(in_memory.erase(std::string("step-000002/") + kHostsFile), 1u);
    EXPECT_TRUE(in_memory == waited);

    RunConfig without = config;
    without.checkpoint.asynchronous = false;
    const RunPlan plain = plan_of(without);
    const Observed unsaved = train(plain, root, false);
    EXPECT_EQ(unsaved.losses, saved.losses);
    EXPECT_EQ(unsaved.buffer_bytes, 0);
    EXPECT_EQ(saved.buffer_bytes, plan.arena_bytes() - plain.arena_bytes());
  }
}

// The newest checkpoint in memory and the one before it exist, until the next but one begins.
TEST_F(RunSaveTest, CheckpointsInMemoryReplaceEachOtherAndEndAfterAFailure) {
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

// The newest checkpoint in memory is intact, and is that on disk, while the next update writes the
// state elsewhere. The numbers are those of a run that keeps nothing in memory.
TEST_F(RunSaveTest, AnUpdateLeavesTheNewestCheckpointInMemoryAsItIs) {
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
TEST_F(RunSaveTest, NoCheckpointInMemoryLiesOnAWayThatTheRunHasLeft) {
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
    memory.remove_newest();  // there is none yet
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
    world.group().barrier();
    memory.remove_newest();
    EXPECT_TRUE(restore(*Checkpoint::open(path("disk/step-000001")), plan, engine).ok());
    world.group().barrier();
    EXPECT_FALSE(fs::exists(path("memory/step-000002")));
    train_step(2);
    memory.start({.step = 2});
    memory.finish();
    EXPECT_TRUE(disk.save({.step = 2}).ok());
  });
  EXPECT_TRUE(Checkpoint::open(path("memory/step-000002"))->verify(1).empty());
  auto in_memory = files_below(path("memory/step-000002"));
  in_memory.erase(kHostsFile);
  EXPECT_TRUE(in_memory == files_below(path("disk/step-000002")));
}

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
TEST_F(RunSaveTest, HostsKeepPartsAndParityOfEachOther) {
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

// Never two saves at once, and none is lost: the second waits for the first.
TEST_F(RunSaveTest, ASaveThatIsDueTooEarlyWaitsAndIsCounted) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  const RunPlan plan = plan_of(config);
  SaveCounts counts;
  Messages messages;
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const bool is_first = world.rank() == 0;
    CheckpointSaver saver(
        engine, requests(plan),
        is_first ? std::vector<RunObserver*>{&messages} : std::vector<RunObserver*>{});
    for (const int64_t step : {1, 2, 3}) saver.start({.step = step});
    EXPECT_TRUE(saver.finish().ok());
    if (is_first) counts = saver.counts();
  });
  EXPECT_EQ(counts.saved, 3);
  EXPECT_EQ(counts.late, 2);
  EXPECT_EQ(messages.saved_steps, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(messages.texts.size(), 1u);  // only the first late save is told
  for (const int64_t step : {1, 2, 3}) {
    const auto checkpoint = Checkpoint::open(path("run") + "/" + step_folder_name(step));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    EXPECT_TRUE(checkpoint->verify(1).empty());
  }
}

// What a failed save has copied goes to the fallback. Without one, the failure is returned until
// another save succeeds.
TEST_F(RunSaveTest, AFailedSaveUsesTheFallbackOrIsReturned) {
  const RunPlan plan = plan_of(saving(some_run()));
  std::ofstream(path("run")) << "in the way";
  Messages messages;
  run_ranks(1, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    std::string fallback;
    CheckpointSaver saver(engine,
                          [&](const TrainPosition& at) {
                            SaveRequest request = requests(plan)(at);
                            request.fallback_root = fallback;
                            return request;
                          },
                          {&messages});
    saver.start({.step = 1});
    EXPECT_EQ(saver.finish().error().kind, ErrorKind::Damaged);
    fallback = path("fallback");
    saver.start({.step = 2});
    EXPECT_TRUE(saver.finish().ok());
    EXPECT_EQ(saver.counts().failed, 1);
  });
  EXPECT_EQ(messages.saved_steps, std::vector<int64_t>{2});
  EXPECT_TRUE(Checkpoint::open(path("fallback/step-000002")).ok());
  ASSERT_EQ(messages.texts.size(), 2u);
  EXPECT_EQ(messages.texts[0].find("step 1 has no checkpoint: " + path("run")), 0u);
  EXPECT_EQ(messages.texts[1].find("step 2 is saved in checkpoint.fallback_folder"), 0u);
}

// Like a run whose older checkpoints are removed while it saves its last one.
class MakesRoom : public Messages {
 public:
  explicit MakesRoom(std::string in_the_way) : in_the_way_(std::move(in_the_way)) {}
  void on_failed_save() override { fs::remove(in_the_way_); }

 private:
  std::string in_the_way_;
};

TEST_F(RunSaveTest, ASaveForWhichTrainingWaitsIsTriedAgainWhenThereMayBeRoom) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  const RunPlan plan = plan_of(config);
  std::ofstream(path("run")) << "in the way";
  Messages only_listens;
  MakesRoom makes_room(path("run"));
  for (Messages* messages : {&only_listens, static_cast<Messages*>(&makes_room)}) {
    const bool has_room = messages == &makes_room;
    run_ranks(2, [&](World& world) {
      const SyntheticSource source(3, plan.model.vocab_size);
      Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
      engine.init_params(1);
      const bool is_first = world.rank() == 0;
      CheckpointSaver saver(
          engine, requests(plan),
          is_first ? std::vector<RunObserver*>{messages} : std::vector<RunObserver*>{});
      EXPECT_EQ(saver.save({.step = 1}).ok(), has_room);
      EXPECT_EQ(saver.counts().saved, has_room ? 1 : 0);
    });
    EXPECT_EQ(messages->saved_steps, std::vector<int64_t>(has_room ? 1 : 0, 1));
  }
}

// The plan of rank 1 has no buffer, so its copy fails. The tensors change in the next step, so no
// rank may write to the fallback.
TEST_F(RunSaveTest, AFailedCopyOnOneRankIsNeverWrittenToTheFallback) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;  // so that both ranks own tensors
  const RunPlan plan = plan_of(config);
  config.checkpoint.asynchronous = false;
  const RunPlan without_buffer = plan_of(config);
  Messages messages;
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    const bool is_first = world.rank() == 0;
    Engine engine(is_first ? plan : without_buffer, world,
                  *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    CheckpointSaver saver(
        engine,
        [&](const TrainPosition& at) {
          SaveRequest request = requests(plan)(at);
          request.fallback_root = path("fallback");
          return request;
        },
        is_first ? std::vector<RunObserver*>{&messages} : std::vector<RunObserver*>{});
    saver.start({.step = 1});
    engine.step(0, 1e-2);
    EXPECT_FALSE(saver.finish().ok());
  });
  EXPECT_TRUE(fs::is_empty(path("run")));
  EXPECT_FALSE(fs::exists(path("fallback")));
  EXPECT_TRUE(messages.saved_steps.empty());
  ASSERT_EQ(messages.texts.size(), 1u);
  EXPECT_NE(messages.texts[0].find("buffer of snapshots is too small"), std::string::npos)
      << messages.texts[0];
}

// Files may not grow beyond 1000 bytes during the save of step 2.
TEST_F(RunSaveTest, ADiskThatIsFullFailsOneSaveAndLeavesNothing) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  rlimit usual;
  ::getrlimit(RLIMIT_FSIZE, &usual);
  const auto former = std::signal(SIGXFSZ, SIG_IGN);
  Messages messages;
  run_ranks(2, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
    engine.init_params(1);
    const bool is_first = world.rank() == 0;
    CheckpointSaver saver(
        engine, requests(plan),
        is_first ? std::vector<RunObserver*>{&messages} : std::vector<RunObserver*>{});
    for (const int64_t step : {1, 2, 3}) {
      const rlimit limit{step == 2 ? 1000 : usual.rlim_cur, usual.rlim_max};
      if (is_first) ::setrlimit(RLIMIT_FSIZE, &limit);
      saver.start({.step = step});
      EXPECT_EQ(saver.finish().ok(), step != 2);
      if (!is_first) continue;
      EXPECT_TRUE(Checkpoint::open(path("run/step-000001"))->verify(1).empty());
      EXPECT_EQ(std::distance(fs::directory_iterator(path("run")), {}), step == 3 ? 2 : 1);
    }
  });
  std::signal(SIGXFSZ, former);
  EXPECT_EQ(messages.saved_steps, (std::vector<int64_t>{1, 3}));
  ASSERT_EQ(messages.texts.size(), 1u);
  EXPECT_NE(messages.texts[0].find("File too large"), std::string::npos) << messages.texts[0];
}

TEST_F(RunSaveTest, ARankThatFailsLeavesNoTemporaryFolder) {
  RunConfig config = saving(some_run());
  config.parallel.dp = 2;
  config.parallel.zero = 1;
  const RunPlan plan = plan_of(config);
  EXPECT_THROW(run_ranks(2,
                         [&](World& world) {
                           const SyntheticSource source(3, plan.model.vocab_size);
                           Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels,
                                         source);
                           engine.init_params(1);
                           CheckpointSaver saver(engine, requests(plan), {});
                           saver.start({.step = 1});
                           if (world.rank() == 1) throw std::runtime_error("broken");
                           engine.step(0, 1e-2);
                         }),
               RankError);
  EXPECT_TRUE(fs::is_empty(path("run")));
}

// One rank's buffer holds the checkpoint's tensors to the byte, up to its alignment.
TEST_F(RunSaveTest, TheBuffersOfAllRanksHoldTheTensorsOnce) {
  for (const int zero : {0, 1, 3}) {
    RunConfig config = saving(some_run());
    config.parallel.dp = 2;
    config.parallel.zero = zero;
    const RunPlan plan = plan_of(config);
    int64_t bytes = 0;
    for (const RankPlan& rank : rank_plans(plan)) bytes += rank.snapshot_bytes;
    EXPECT_EQ(bytes, 3 * 4 * plan.num_params);
  }
}

// The buffer is taken only where it fits.
TEST_F(RunSaveTest, APlanWithoutRoomForTheBufferTakesNone) {
  RunConfig config = saving(some_run());
  const int64_t with = plan_of(config).largest().memory.arena_bytes;
  config.checkpoint.asynchronous = false;
  const int64_t without = plan_of(config).largest().memory.arena_bytes;
  EXPECT_EQ(with - without, aligned_bytes(plan_of(saving(some_run())).pipeline[0].snapshot_bytes));
  config.checkpoint.asynchronous = true;
  for (const int64_t limit : {without, with - 1, with}) {
    config.memory.limit_bytes = limit;
    const RunPlan plan = plan_of(config);
    EXPECT_EQ(plan.takes_snapshots, limit == with);
    EXPECT_EQ(plan.largest().memory.arena_bytes, limit == with ? with : without);
    EXPECT_EQ(plan_warnings(plan).size(), limit == with ? 0u : 1u);
  }
  config.memory.limit_bytes = without - 1;
  EXPECT_FALSE(make_plan(config, {}).ok());
}

}  // namespace
}  // namespace trireme
