#include "train/run_save.h"

#include <sys/resource.h>

#include <csignal>
#include <mutex>
#include <stdexcept>

#include "base/align.h"
#include "data/synthetic_source.h"
#include "planner/plan_warnings.h"
#include "schema/run_config_text.h"
#include "schema/workspace.h"
#include "train/kernel_choice.h"
#include "train/run_save_fixture.h"

namespace trireme {
namespace {

using RunSaveTest = SaveTest;

struct Observed {
  std::vector<double> losses;
  int64_t buffer_bytes = 0;
  std::string differences;
};

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
