#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "data/synthetic_source.h"
#include "kernels/kernel_table.h"
#include "layout_case.h"
#include "resharded_state.h"
#include "train/run_state.h"

// Every layout resumes what every other layout has saved, and holds exactly its state.
namespace trireme {
namespace {

std::vector<Case> resharded_layouts() {
  using enum ScheduleKind;
  return {{},
          {.dp = 2},
          {.dp = 2, .zero = 1},
          {.dp = 2, .zero = 2, .bucket_bytes = 600},
          {.dp = 4, .zero = 1},
          {.dp = 4, .zero = 3},
          {.dp = 8, .zero = 3, .prefetch = 2},
          {.dp = 4, .zero = 3, .hsdp_shard = 2},
          {.dp = 4, .zero = 2, .hsdp_shard = 2},
          {.dp = 2, .servers = 1},
          {.pp = 2, .schedule = Gpipe},
          {.pp = 4, .schedule = OneFOneB},
          {.pp = 8, .schedule = OneFOneB},
          {.pp = 4, .schedule = Interleaved},
          {.pp = 2, .schedule = ZbH1},
          {.pp = 4, .schedule = ZbH2},
          {.pp = 2, .schedule = Dualpipe},
          {.pp = 4, .schedule = DualpipeV},
          {.dp = 2, .pp = 2, .schedule = ZbV, .zero = 1},
          {.dp = 2, .pp = 2, .schedule = Interleaved, .zero = 2},
          {.dp = 2, .pp = 2, .schedule = Dualpipe, .zero = 1},
          {.dp = 2, .pp = 4, .zero = 3},
          {.tp = 2},
          {.dp = 2, .zero = 1, .tp = 2, .sequence = true},
          {.dp = 2, .pp = 2, .zero = 3, .tp = 2, .order = "dp,tp,cp,pp"},
          {.dp = 3, .zero = 1, .tp = 2, .sequences = 15},
          {.dp = 3, .zero = 3, .sequences = 15},
          {.cp = 2},
          {.dp = 2, .zero = 3, .cp = 2, .context = ContextExchange::AllToAll},
          {.dp = 2, .zero = 2, .offload = OffloadChoice::Optimizer},
          {.dp = 2, .zero = 1, .offload = OffloadChoice::All},
          {.dp = 2, .pp = 2, .zero = 3, .offload = OffloadChoice::All}};
}

std::vector<Case> resharded_layouts_of_experts() {
  return {{.family = "moe"},
          {.dp = 2, .zero = 2, .family = "moe"},
          {.pp = 4, .schedule = ScheduleKind::OneFOneB, .family = "moe"},
          {.family = "moe", .tp = 2},
          {.dp = 2, .family = "moe", .ep = 2},
          {.dp = 4, .zero = 3, .family = "moe", .ep = 2},
          {.dp = 4, .zero = 1, .family = "moe", .ep = 4},
          {.dp = 2, .pp = 2, .zero = 1, .family = "moe", .ep = 2},
          {.family = "moe", .cp = 2, .ep = 2}};
}

// Loads every checkpoint into one layout, one after the other, and returns how many elements each
// of them has in the right place.
std::vector<int64_t> resume_all(const RunPlan& plan, const std::vector<Checkpoint>& saved,
                                const std::vector<WholeState>& states) {
  std::vector<int64_t> counts(saved.size(), 0);
  std::mutex mutex;
  run_ranks(plan.num_ranks(), {.timeout_s = 60.0}, [&](World& world) {
    const SyntheticSource source(3, plan.model.vocab_size);
    Engine engine(plan, world, reference_kernels(), source);
    engine.init_params(999);
    for (size_t from = 0; from < saved.size(); ++from) {
      const Result<TrainPosition> position = restore(saved[from], plan, engine);
      const bool is_right = position.ok() && position->step == 1 && position->num_updates == 1;
      const int64_t count = is_right ? num_equal(engine, states[from]) : -1;
      const std::lock_guard lock(mutex);
      counts[from] = count < 0 || counts[from] < 0 ? -1 : counts[from] + count;
    }
  });
  return counts;
}

void expect_that_all_pairs_are_exact(const std::vector<Case>& layouts) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-reshard-{}", getpid());
  std::vector<RunPlan> plans;
  std::vector<Checkpoint> saved;
  std::vector<WholeState> states;
  for (const Case& from : layouts) {
    SCOPED_TRACE(from.name());
    plans.push_back(seeded_plan(config_of(from), plans.size() + 1));
    const std::string folder = (root / std::to_string(plans.size())).string();
    run_layout(plans.back(), {.end = 1, .save_to = folder, .evaluates = false});
    Result<Checkpoint> checkpoint = Checkpoint::open(folder + "/step-000001");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    saved.push_back(std::move(*checkpoint));
    states.push_back(state_in(saved.back()));
    ASSERT_TRUE(states.size() == 1 || states.back() != states.front());
  }
  for (size_t to = 0; to < layouts.size(); ++to) {
    const std::vector<int64_t> counts = resume_all(plans[to], saved, states);
    for (size_t from = 0; from < layouts.size(); ++from) {
      EXPECT_EQ(counts[from], num_elements(states[from]))
          << layouts[from].name() << " -> " << layouts[to].name();
    }
  }
  std::filesystem::remove_all(root);
}

TEST(ReshardMatrix, EveryLayoutResumesWhatEveryOtherHasSaved) {
  ASSERT_GE(resharded_layouts().size(), 24u);
  expect_that_all_pairs_are_exact(resharded_layouts());
}

TEST(ReshardMatrix, EveryLayoutOfExpertsResumesWhatEveryOtherHasSaved) {
  expect_that_all_pairs_are_exact(resharded_layouts_of_experts());
}

}  // namespace
}  // namespace trireme
