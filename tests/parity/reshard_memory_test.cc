#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "agent/rank_link.h"
#include "data/synthetic_source.h"
#include "kernels/kernel_table.h"
#include "layout_case.h"
#include "resharded_state.h"
#include "session/memory_resume.h"
#include "train/checkpoint_saver.h"
#include "train/memory_saver.h"
#include "train/run_state.h"

// Every layout resumes what every other layout has kept in the memory of its hosts, of which one is
// lost.
namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kJob = 5;

std::vector<Case> layouts_on_hosts() {
  using enum ScheduleKind;
  return {{.dp = 3, .zero = 3, .sequences = 15},
          {.dp = 4, .zero = 3},
          {.pp = 4, .schedule = Interleaved},
          {.dp = 2, .pp = 2, .schedule = ZbV, .zero = 2},
          {.dp = 2, .zero = 1, .tp = 2, .sequence = true}};
}

RunPlan plan_in_memory(const Case& c, uint64_t seed) {
  RunConfig config = config_of(c);
  config.checkpoint.memory_every = 1;
  config.checkpoint.parity = "2+1";
  return seeded_plan(config, seed);
}

// Consecutive ranks share a host, which is a folder.
std::string host_of_rank(World& world, int num_hosts) {
  return fmt::format("host{}", world.rank() * num_hosts / world.group().size());
}

// Trains one step on three hosts. Each keeps its part in memory, and all save the same on disk.
void keep_in_memory(const RunPlan& plan, const std::string& root) {
  for (const char* folder : {"host0", "host1", "host2"}) {
    fs::create_directories(root + "/" + folder);
  }
  run_ranks(plan.num_ranks(), {.timeout_s = 60.0}, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, reference_kernels(), source);
    engine.init_params(plan.config.run.seed);
    const std::string host = host_of_rank(world, 3);
    const auto into = [&](const std::string& folder) {
      return [&plan, path = root + "/" + folder](const TrainPosition& at) {
        return SaveRequest{checkpoint_info(plan, at, "data"), {}, path, ""};
      };
    };
    MemorySaver memory(engine,
                       {.place = {host, root + "/" + host},
                        .job = kJob,
                        .parity = parse_parity(plan.config.checkpoint.parity).value()},
                       into(host), [](const std::string& message) { ADD_FAILURE() << message; });
    CheckpointSaver disk(engine, into("disk"), {});
    memory.expect_start(true);
    engine.step(0, 1e-2);
    const TrainPosition position{.step = 1, .num_updates = 1};
    memory.start(position);
    memory.finish();
    const Status saved = disk.save(position);
    TRIREME_CHECK(saved.ok(), saved.error().message);
  });
}

// Resumes on the hosts that are left as a rank does that its agent has started. Returns how many
// elements are in the right place; -1 if one is not.
int64_t resume_from_memory(const RunPlan& plan, const std::string& root, int lost,
                           const WholeState& whole) {
  const auto page = SharedJobPage::make();
  (*page)->job = int64_t(kJob);
  (*page)->trained_epoch = 1;
  (*page)->step = 1;
  const auto link = RankLink::open({.page = page->fd()});
  const std::atomic<int> no_signals = 0;
  int64_t count = 0;
  std::mutex mutex;
  run_ranks(plan.num_ranks(), {.timeout_s = 60.0}, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, reference_kernels(), source);
    engine.init_params(999);
    const int place = world.rank() * 2 / world.group().size();
    SessionOptions options{.config = plan.config, .stop_signals = no_signals};
    options.link = &*link;
    options.memory_folder = fmt::format("{}/host{}", root, place + (place >= lost ? 1 : 0));
    options.order.emplace();
    MemoryResume memory(world, options, engine);
    TRIREME_CHECK(memory.newest_step() == 1, "no checkpoint in memory");
    const Result<MemoryCheckpoint> taken = memory.take_newest();
    TRIREME_CHECK(taken.ok() && taken->is_rebuilt, taken.ok() ? "" : taken.error().message);
    const Result<Checkpoint> checkpoint = Checkpoint::open(taken->folder);
    TRIREME_CHECK(checkpoint.ok(), checkpoint.error().message);
    const Result<TrainPosition> position = restore(*checkpoint, plan, engine);
    const bool is_right = position.ok() && position->step == 1 && position->num_updates == 1;
    const int64_t own = is_right ? num_equal(engine, whole) : -1;
    world.group().barrier();
    memory.remove_folder();
    const std::lock_guard lock(mutex);
    count = own < 0 || count < 0 ? -1 : count + own;
  });
  return count;
}

TEST(ReshardMatrix, EveryLayoutResumesWhatEveryOtherHasInMemoryWithoutOneHost) {
  const fs::path root =
      fs::temp_directory_path() / fmt::format("trireme-reshard-memory-{}", getpid());
  const std::vector<Case> layouts = layouts_on_hosts();
  std::vector<RunPlan> plans;
  for (const Case& layout : layouts) plans.push_back(plan_in_memory(layout, plans.size() + 1));
  for (size_t from = 0; from < layouts.size(); ++from) {
    const std::string folder = (root / std::to_string(from)).string();
    keep_in_memory(plans[from], folder);
    const Result<Checkpoint> checkpoint = Checkpoint::open(folder + "/disk/step-000001");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const WholeState whole = state_in(*checkpoint);
    const int lost = int(from % 3);
    fs::remove_all(fmt::format("{}/host{}", folder, lost));
    for (size_t to = 0; to < layouts.size(); ++to) {
      EXPECT_EQ(resume_from_memory(plans[to], folder, lost, whole), num_elements(whole))
          << layouts[from].name() << " without host " << lost << " -> " << layouts[to].name();
    }
  }
  fs::remove_all(root);
}

}  // namespace
}  // namespace trireme
