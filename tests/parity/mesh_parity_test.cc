#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/check.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "pairwise.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

const char* const kFamilies[] = {"gpt2",           "llama",        "moe_capacity",  "moe_latent",
                                 "llama_mtp",      "llama_window", "moe",           "moe_mtp",
                                 "gpt2_parallel",  "llama_scaled", "llama_qk_norm", "llama_latent",
                                 "moe_dense_first"};
constexpr int kFewFamilies = 6;
constexpr int kAllFamilies = std::size(kFamilies);
constexpr ScheduleKind kSchedules[] = {ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
                                       ScheduleKind::ZbH1,     ScheduleKind::ZbV,
                                       ScheduleKind::Dualpipe, ScheduleKind::Gpipe};
constexpr int kNumSchedules = 6;

// The results have the bits of the same ranks of tp, cp and ep without the other axes, and are
// within the bound of one rank. If micro-batches of two directions meet in the experts of
// data-parallel ranks, other micro-batches meet than without them, so only the bound is checked.
void expect_the_numbers_of_one_rank(const Case& c) {
  SCOPED_TRACE(c.name());
  const Case one{.family = c.family, .is_wide = true, .layers = c.layers};
  const bool meets_others = c.ep > c.cp && c.schedule == ScheduleKind::Dualpipe;
  if (meets_others) {
    const LayoutRun run = run_case(c);
    EXPECT_EQ(run.differences, "");
    return expect_near(run, reference_of(one));
  }
  expect_the_bits_of_one_rank(c);
  expect_near(reference_of(c), reference_of(one));
}

bool is_meant(const Case& c) {
  const bool has_experts = c.family.starts_with("moe");
  return c.ranks() <= 8 && c.dp * c.cp % c.ep == 0 && (c.ep == 1 || has_experts) &&
         (c.zero == 0 || c.dp > 1) && (c.pp > 1 || c.schedule == ScheduleKind::OneFOneB) &&
         ((!c.sequence && !c.tp_overlap) || c.tp > 1) &&
         (c.cp > 1 || c.context == ContextExchange::Ring);
}

enum Factor {
  kDp,
  kPp,
  kSchedule,
  kZero,
  kRecompute,
  kFamily,
  kTp,
  kPieces,
  kCp,
  kContext,
  kHsdp,
  kEp
};

Case mesh_case_of(const Selection& choice) {
  return {.dp = 1 << choice[kDp],
          .pp = 1 << choice[kPp],
          .schedule = kSchedules[choice[kSchedule]],
          .zero = choice[kZero],
          .hsdp_shard = choice[kHsdp] == 1 && choice[kDp] > 0 ? 2 : 0,
          .recompute = kRecomputes[choice[kRecompute]],
          .family = kFamilies[choice[kFamily]],
          .tp = 1 << choice[kTp],
          .sequence = choice[kPieces] % 2 == 1,
          .cp = 1 << choice[kCp],
          .context = choice[kContext] == 0 ? ContextExchange::Ring : ContextExchange::AllToAll,
          .ep = 1 << choice[kEp],
          .tp_overlap = choice[kPieces] >= 2,
          .is_wide = true,
          .layers = choice[kPp] <= 1 ? 4 : 8};
}

// Tests every combination of values of the factors `degrees`, and every pair of values of all
// factors, on meshes of 1, 2, 4 and 8 ranks, for the first `num_families` families.
void expect_the_numbers_on_every_mesh(const std::vector<int>& degrees, int num_families) {
  const std::vector<Selection> all = all_choices(
      {4, 4, kNumSchedules, 4, 3, num_families, 4, 4, 4, 2, 2, 4}, [](const Selection& choice) {
        const bool is_small =
            choice[kDp] + choice[kPp] + choice[kTp] + choice[kCp] <= 3;  // 8 ranks
        return is_small && is_meant(mesh_case_of(choice));
      });
  const std::vector<Selection> cover = pairwise_cover(
      all, [](const Selection& choice) { return is_possible(mesh_case_of(choice)); }, degrees);
  EXPECT_EQ(count_groups(cover, degrees), count_groups(all, degrees));
  for (const Selection& choice : cover) expect_the_numbers_of_one_rank(mesh_case_of(choice));
}

TEST(ParityOfMeshes, EveryMeshAndEveryPairOfTheRest) {
  expect_the_numbers_on_every_mesh({kDp, kPp, kTp, kCp}, kFewFamilies);
}

TEST(ParityOfMeshesInFull, EveryDegreeWithEveryZeroStageAndFamily) {
  expect_the_numbers_on_every_mesh({kDp, kPp, kZero, kFamily, kTp, kCp, kEp}, kAllFamilies);
}

// In slices tp does not change a bit either, whatever else is split.
TEST(ParityOfMeshes, InSlicesTensorParallelRanksLeaveTheBitsOfOne) {
  std::vector<Case> meshes = {
      {.tp = 2},
      {.compute = ComputeChoice::Bf16, .tp = 4},
      {.compute = ComputeChoice::Fp16, .tp = 4},
      {.compute = ComputeChoice::Bf16, .kept = Kept::In16, .tp = 2},
      {.dp = 2, .zero = 3, .compute = ComputeChoice::Bf16, .kept = Kept::In8, .tp = 4},
      {.compute = ComputeChoice::Bf16, .kept = Kept::In6, .tp = 4, .offload = OffloadChoice::All},
      {.dropout = 0.1, .tp = 2, .tp_overlap = true},
      {.recompute = Recompute::Selective, .compute = ComputeChoice::Bf16, .tp = 4},
      {.dp = 2, .zero = 1, .tp = 4},
      {.dp = 2, .zero = 3, .compute = ComputeChoice::Bf16, .dropout = 0.1, .tp = 2},
      {.pp = 2, .schedule = ScheduleKind::ZbV, .recompute = Recompute::Full, .tp = 2},
      {.dp = 2, .pp = 2, .zero = 2, .tp = 2},
      {.tp = 2, .cp = 2},
      {.tp = 2, .cp = 2, .context = ContextExchange::AllToAll},
      {.tp = 2, .offload = OffloadChoice::All},
      {.tp = 2, .clip_norm = 0.0, .post_validate = true},
      {.dp = 2, .tp = 2, .servers = 2},
      {.tp = 8}};
  for (const char* family : {"gpt2", "llama"}) {
    for (Case c : meshes) {
      c.family = family;
      c.in_slices = true;
      c.is_wide = true;
      const bool has_so_many = c.tp < 8 || c.family == "gpt2";  // llama has only four kv heads
      ASSERT_EQ(is_possible(c), has_so_many) << c.name();
      if (!has_so_many) continue;
      expect_the_bits_of_one_rank(c);
    }
  }
}

TEST(ParityOfMeshes, SlicesThatDoNotFitAreRefusedWithARemedy) {
  const auto refusal_of = [](const Case& c) {
    const Result<RunPlan> plan = make_plan(config_of(c), {});
    if (plan.ok()) return std::string();
    EXPECT_EQ(plan.error().kind, ErrorKind::Usage);  // the configuration contradicts itself
    // So that its place can be found.
    EXPECT_EQ(plan.error().message.rfind("run.reproducible = ", 0), 0u);
    return plan.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_PRED2(
      has, refusal_of({.family = "llama", .tp = 8, .in_slices = true, .is_wide = true}),
      "4 slices of heads, kv_heads, d_ff and vocabulary, which parallel.tp = 8 must divide");
  EXPECT_PRED2(has, refusal_of({.tp = 2, .sequence = true, .in_slices = true, .is_wide = true}),
               "set parallel.sequence = false or take \"layout\"");
  EXPECT_PRED2(has, refusal_of({.family = "moe", .in_slices = true, .is_wide = true}),
               "is for model.family = \"gpt2\" and \"llama\"");
}

// Checkpoints are loaded from any tp to any other.
TEST(ParityOfMeshes, InSlicesACheckpointResumesWithTheSameBits) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("trireme-slices-{}", getpid()))
          .string();
  for (const char* family : {"gpt2", "llama"}) {
    const auto plan_in_slices = [&](int tp) {
      return plan_of({.family = family, .tp = tp, .in_slices = true, .is_wide = true});
    };
    const LayoutRun whole = run_layout(plan_in_slices(1), {.end = 4});
    for (const auto& [from, to] : {std::pair{1, 4}, std::pair{4, 2}, std::pair{2, 1}}) {
      run_layout(plan_in_slices(from), {.end = 2, .save_to = folder});
      const LayoutRun rest = run_layout(
          plan_in_slices(to), {.first = 2, .end = 4, .load_from = folder + "/step-000002"});
      EXPECT_EQ(rest.losses.back(), whole.losses.back()) << family << " " << from << " to " << to;
      EXPECT_EQ(rest.weights, whole.weights) << family << " " << from << " to " << to;
      std::filesystem::remove_all(folder);
    }
  }
}

// With as many slices as the model allows, the same sums have other orders.
TEST(ParityOfMeshes, SlicesStayWithinTheBoundOfWholeSums) {
  for (const char* family : {"gpt2", "llama"}) {
    expect_near(run_case({.family = family, .in_slices = true, .is_wide = true}),
                reference_of({.family = family, .is_wide = true}));
  }
}

std::vector<Case> wide_meshes(const std::string& family) {
  std::vector<Case> meshes = {
      {.tp = 2, .sequence = true},
      {.tp = 4, .tp_overlap = true},
      {.cp = 4},
      {.dp = 2, .zero = 3, .tp = 2, .cp = 2, .context = ContextExchange::AllToAll},
      {.pp = 2, .schedule = ScheduleKind::ZbV, .recompute = Recompute::Full, .tp = 2},
      {.dp = 4, .zero = 1, .ep = 4},
      {.dp = 2, .cp = 2, .ep = 4}};
  for (Case& c : meshes) {
    c.family = family;
    c.is_wide = true;
  }
  std::erase_if(meshes, [](const Case& c) { return !is_meant(c) || !is_possible(c); });
  return meshes;
}

// Returns every (tp, cp, ep) of at most eight ranks, one rank first. If the experts have more ranks
// than a sequence has tokens for, dp is needed. The ways to split a layer alternate. Other axes do
// not change the bits of these (tests above).
std::vector<Case> every_split(const std::string& family) {
  std::vector<Case> splits;
  for (const Selection& degrees : all_choices({4, 4, 4}, [](const Selection&) { return true; })) {
    const int tp = 1 << degrees[0], cp = 1 << degrees[1], ep = 1 << degrees[2];
    const int turn = int(splits.size());
    Case c{.dp = std::max(ep / cp, 1),
           .zero = ep > cp ? turn % 4 : 0,
           .family = family,
           .tp = tp,
           .sequence = tp > 1 && turn % 2 == 1,
           .cp = cp,
           .context = cp > 1 && turn % 3 == 0 ? ContextExchange::AllToAll : ContextExchange::Ring,
           .ep = ep,
           .tp_overlap = tp > 1 && turn % 4 >= 2,
           .is_wide = true,
           .layers = 4,
           .sequences = 8};
    if (!is_meant(c)) continue;
    if (!is_possible(c)) c.context = ContextExchange::Ring;  // fewer heads than ranks of tp and cp
    if (is_possible(c)) splits.push_back(c);
  }
  return splits;
}

// Returns for how many steps tokens visit the same experts as on one rank. After a near tie is
// decided differently the two runs are no longer comparable.
size_t steps_of_same_visits(const LayoutRun& run, const LayoutRun& one) {
  const size_t num_steps = one.losses.size(), per_step = one.expert_loads.size() / num_steps;
  for (size_t i = 0; i < one.expert_loads.size(); ++i) {
    if (run.expert_loads[i] != one.expert_loads[i]) return i / per_step;
  }
  return num_steps;
}

// Small differences of sums do not grow: twenty steps on other meshes keep the losses of one rank.
// Takes one split of `every`.
void expect_twenty_free_steps_within_the_bound(const std::vector<const char*>& families,
                                               size_t every) {
  for (const char* family : families) {
    const RunSteps steps{.end = 20, .evaluates = false};
    const std::vector<Case> splits = every_split(family);
    const LayoutRun one = run_layout(plan_of(splits.front()), steps);
    for (size_t i = every - 1; i < splits.size(); i += every) {
      const Case& c = splits[i];
      SCOPED_TRACE(c.name());
      const LayoutRun run = run_layout(plan_of(c), steps);
      const size_t num_same = steps_of_same_visits(run, one);
      EXPECT_GE(num_same, 5u);
      for (size_t step = 0; step < num_same; ++step) {
        EXPECT_NEAR(run.losses[step], one.losses[step], 2e-5 * one.losses[step]) << "step " << step;
      }
    }
  }
}

TEST(ParityOfMeshes, TwentyFreeStepsStayWithinTheBound) {
  expect_twenty_free_steps_within_the_bound({"llama", "moe"}, 8);
}

TEST(ParityOfMeshesInFull, TwentyFreeStepsOfEverySplitStayWithinTheBound) {
  expect_twenty_free_steps_within_the_bound(
      {"gpt2", "llama", "moe", "llama_qk_norm", "llama_window", "llama_latent", "moe_latent",
       "llama_mtp", "moe_mtp"},
      1);
}

// Without momentum, so that the first moment is the gradient of the step.
RunPlan plan_without_memory(const Case& c) {
  RunConfig config = config_of(c);
  config.optim.beta1 = 0.0;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *plan;
}

// Tests every sixth of twenty steps: splits repeat it from the weights that one rank has at that
// step. The loss must agree within 1e-6, and every gradient must agree. Rarely a near tie
// sends a token elsewhere.
void expect_steps_from_the_weights_of_one_rank(size_t every) {
  const std::string root =
      (std::filesystem::temp_directory_path() / fmt::format("trireme-steps-{}", getpid())).string();
  for (const std::string family : {"gpt2", "llama", "moe"}) {
    std::vector<RunPlan> plans;
    const std::vector<Case> splits = every_split(family);
    for (size_t i = 0; i < splits.size(); i += every) {
      plans.push_back(plan_without_memory(splits[i]));
    }
    const RunPlan& alone = plans.front();
    std::string start;  // weights before the step: a checkpoint, or "" for initial parameters
    int num_elsewhere = 0;
    for (int step = 0; step < 20; step += 6) {
      const RunSteps one_step{
          .first = step, .end = step + 1, .load_from = start, .evaluates = false};
      const LayoutRun one = run_layout(alone, one_step);
      for (const RunPlan& plan : plans) {
        SCOPED_TRACE(fmt::format("{} step {} tp {} cp {} pp {} dp {} ep {}", family, step,
                                 plan.mesh.tp, plan.mesh.cp, plan.mesh.pp, plan.mesh.dp,
                                 plan.mesh.ep));
        const LayoutRun split = run_layout(plan, one_step);
        if (split.expert_loads != one.expert_loads) {
          ++num_elsewhere;
          continue;
        }
        EXPECT_NEAR(split.losses[0], one.losses[0], 1e-6 * one.losses[0]);
        expect_near(split, one);
      }
      if (step + 6 >= 20) break;
      const std::string folder = fmt::format("{}/{}", root, family);
      run_layout(alone, {.first = step,
                         .end = step + 6,
                         .load_from = start,
                         .save_to = folder,
                         .evaluates = false});
      start = fmt::format("{}/step-{:06}", folder, step + 6);
    }
    EXPECT_LE(num_elsewhere, family == "moe" ? int(plans.size()) / 4 : 0)
        << family;  // of 4 steps of each split
  }
  std::filesystem::remove_all(root);
}

TEST(ParityOfMeshes, StepsFromTheWeightsOfOneRankStayWithinTheBounds) {
  expect_steps_from_the_weights_of_one_rank(2);
}

TEST(ParityOfMeshesInFull, StepsOfEverySplitFromTheWeightsOfOneRankStayWithinTheBounds) {
  expect_steps_from_the_weights_of_one_rank(1);
}

// From every mesh to others, with tp, cp and ep: the next losses are those of one rank.
TEST(ParityOfMeshes, ACheckpointMovesBetweenAllAxes) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-meshes-{}", getpid());
  for (const char* family : {"llama", "moe"}) {
    const Case alone{.family = family, .is_wide = true};
    const LayoutRun whole = run_layout(plan_of(alone), {.end = 3, .evaluates = false});
    std::vector<Case> meshes = wide_meshes(family);
    meshes.push_back(alone);
    for (size_t from = 0; from < meshes.size(); ++from) {
      const std::string folder = (root / fmt::format("{}-{}", family, from)).string();
      run_layout(plan_of(meshes[from]), {.end = 2, .save_to = folder});
      for (const size_t further : {1, 3}) {
        const Case& to = meshes[(from + further) % meshes.size()];
        SCOPED_TRACE(meshes[from].name() + " -> " + to.name());
        const LayoutRun rest =
            run_layout(plan_of(to), {.first = 2, .end = 3, .load_from = folder + "/step-000002"});
        EXPECT_NEAR(rest.losses.back(), whole.losses.back(), 2e-5 * whole.losses.back());
      }
    }
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace trireme
