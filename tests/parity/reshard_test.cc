#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "data/synthetic_source.h"
#include "kernels/kernel_table.h"
#include "layout_case.h"
#include "planner/make_plan.h"
#include "train/run_state.h"

// Every layout resumes what every other layout has saved, and holds exactly its state.
namespace trireme {
namespace {

using WholeState = std::map<std::string, std::vector<float>>;

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

// Every layout starts from its own seed, so no two of them save the same state. Only the mode
// "fixed" allows three ranks.
RunPlan seeded_plan(const Case& c, uint64_t seed) {
  RunConfig config = config_of(c);
  config.run.seed = seed;
  config.run.reproducible = Reproducible::Fixed;
  Result<RunPlan> plan = make_plan(config, {});
  EXPECT_TRUE(plan.ok()) << c.name() << ": " << plan.error().message;
  return std::move(plan).value();
}

WholeState state_in(const Checkpoint& checkpoint) {
  WholeState all;
  for (const auto& [name, tensor] : checkpoint.index().contents.tensors) {
    std::vector<float>& values = all[name];
    values.resize(size_t(tensor.shape.num_elements()));
    const TensorRequest request{name, tensor.shape, DType::F32, Slice::whole(tensor.shape),
                                values.data()};
    const Status read = checkpoint.read({&request, 1});
    EXPECT_TRUE(read.ok()) << read.error().message;
  }
  return all;
}

// Compares what one rank owns, also what another rank writes to checkpoints. Returns the number of
// elements that this rank would write; -1 if an element differs.
int64_t num_equal(const Engine& engine, const WholeState& whole) {
  int64_t count = 0;
  for (const OwnedTensors& owned : engine.owned()) {
    const auto compare = [&](const std::string& name, const TensorRef& tensor_N) {
      const std::vector<float>& values = whole.at(name);
      for (int64_t i = 0; i < owned.count; ++i) {
        const float& expected = values[size_t(global_element(owned, i))];
        if (std::memcmp(&expected, tensor_N.as<float>() + i, sizeof(float)) != 0) return false;
      }
      if (owned.in_checkpoint) count += owned.count;
      return true;
    };
    const std::string& name = owned.spec->name;
    if (!compare(name, owned.master_N) || !compare("exp_avg/" + name, owned.exp_avg_N) ||
        !compare("exp_avg_sq/" + name, owned.exp_avg_sq_N)) {
      return -1;
    }
  }
  return count;
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

int64_t num_elements(const WholeState& state) {
  int64_t count = 0;
  for (const auto& [name, values] : state) count += int64_t(values.size());
  return count;
}

void expect_that_all_pairs_are_exact(const std::vector<Case>& layouts) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-reshard-{}", getpid());
  std::vector<RunPlan> plans;
  std::vector<Checkpoint> saved;
  std::vector<WholeState> states;
  for (const Case& from : layouts) {
    SCOPED_TRACE(from.name());
    plans.push_back(seeded_plan(from, plans.size() + 1));
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
