#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"
#include "program/make_schedule.h"

// Pipelines whose places have tensor parallel degrees of their own (parallel.stage_tp).
namespace trireme {
namespace {

using Places = std::vector<PlaceDegrees>;

std::string text_of(const Places& places, int PlaceDegrees::*degree) {
  std::vector<int> numbers;
  for (const PlaceDegrees& place : places) numbers.push_back(place.*degree);
  return fmt::format("{}", fmt::join(numbers, ","));
}

Case uneven(const Places& places, Case c = {}) {
  c.tp = c.dp = 1;
  for (const PlaceDegrees& place : places) {
    c.tp = std::lcm(c.tp, place.tp);
    c.dp = std::lcm(c.dp, place.dp);
  }
  c.pp = int(places.size());
  c.stage_tp = text_of(places, &PlaceDegrees::tp);
  c.stage_dp = text_of(places, &PlaceDegrees::dp);
  c.order = "tp,cp,dp,pp";
  c.is_wide = true;
  return c;
}

Case in_slices(Case c) {
  c.in_slices = true;
  return c;
}

// Losses and gradients are within the bounds of one rank, and memory and traffic are as predicted.
void expect_near_one_rank(const Case& c) {
  SCOPED_TRACE(c.name());
  const LayoutRun run = run_case(c);
  EXPECT_EQ(run.differences, "");
  expect_near(run, reference_of({.family = c.family, .is_wide = true, .layers = c.layers}));
}

// Every pipeline of at most `most` ranks whose places have 1, 2 or 4 ranks along tp and dp.
std::vector<Places> small_pipelines(int most) {
  std::vector<Places> all;
  std::vector<Places> begun = {{}};
  while (!begun.empty()) {
    const Places before = begun.back();
    begun.pop_back();
    int ranks = 0;
    for (const PlaceDegrees& place : before) ranks += place.tp * place.dp;
    const bool differ = std::any_of(before.begin(), before.end(), [&](const PlaceDegrees& place) {
      return place.tp != before.front().tp;
    });
    if (differ) all.push_back(before);
    for (const int tp : {1, 2, 4}) {
      for (const int dp : {1, 2, 4}) {
        if (before.size() == 3 || ranks + tp * dp > most) continue;
        begun.push_back(before);
        begun.back().push_back({tp, dp});
      }
    }
  }
  return all;
}

// The schedules and levels of ZeRO take turns.
Case case_of(const Places& places, int turn) {
  constexpr ScheduleKind kTaken[] = {ScheduleKind::OneFOneB, ScheduleKind::Gpipe,
                                     ScheduleKind::ZbH1,     ScheduleKind::Interleaved,
                                     ScheduleKind::ZbV,      ScheduleKind::ZbH2};
  Case c{.schedule = kTaken[size_t(turn) % std::size(kTaken)], .zero = turn % 4};
  if (turn % 3 == 0) c.family = "llama";  // else both ends hold a table
  c.recompute = kRecomputes[size_t(turn) % std::size(kRecomputes)];
  c = uneven(places, c);
  const bool is_divided = c.sequences / c.dp % c.pp == 0;
  if (c.schedule == ScheduleKind::Interleaved && !is_divided) c.schedule = ScheduleKind::ZbV;
  return c;
}

// In slices the bits are those of one rank.
TEST(ParityOfUnevenTensors, EverySmallPipelineInSlicesHasTheBitsOfOneRank) {
  const std::vector<Places> pipelines = small_pipelines(6);
  ASSERT_GE(pipelines.size(), 40u);
  int turn = 0;
  for (const Places& places : pipelines) {
    Case c = case_of(places, turn++);
    if (turn % 5 == 0) c.compute = ComputeChoice::Bf16;
    expect_the_bits_of_one_rank(in_slices(c));
  }
}

TEST(ParityOfUnevenTensors, EverySmallPipelineIsNearOneRank) {
  const std::vector<std::string> families = {"llama", "gpt2", "moe", "llama_window",
                                             "llama_qk_norm"};
  int turn = 0;
  for (const Places& places : small_pipelines(5)) {
    Case c = case_of(places, turn);
    c.family = families[size_t(turn++) % families.size()];
    c.sequence = turn % 2 == 1;
    c.tp_overlap = turn % 3 == 1;
    expect_near_one_rank(c);
  }
}

// Three ranks are one rank and two that share its layers.
TEST(ParityOfUnevenTensors, BesideTheRestOfALayout) {
  const Places places = {{1, 1}, {2, 1}};
  for (const Places& of : {places, Places{{2, 1}, {1, 1}}}) {
    expect_the_bits_of_one_rank(
        in_slices(uneven(of, {.offload = OffloadChoice::Optimizer, .bucket_bytes = 5000})));
    expect_the_bits_of_one_rank(in_slices(uneven(of, {.dropout = 0.1, .tp_overlap = true})));
    expect_the_bits_of_one_rank(in_slices(uneven(of, {.clip_norm = 0.0, .post_validate = true})));
    expect_near_one_rank(uneven(of, {.cp = 2}));
    expect_near_one_rank(uneven(of, {.sequence = true, .cp = 2}));
  }
  expect_the_bits_of_one_rank(in_slices(uneven({{2, 1}, {1, 2}, {2, 1}})));
  // Stages of equal degrees may follow each other, and layers may be stated.
  expect_the_bits_of_one_rank(
      in_slices(uneven({{2, 1}, {2, 1}, {1, 2}}, {.stage_layers = "2,5,1"})));
}

// Adapters, Muon, which updates whole matrices, and the limit of attention logits know the degree
// of their place.
TEST(ParityOfUnevenTensors, AdaptersMuonAndTheLimitOfLogits) {
  for (const Places& of :
       {Places{{1, 1}, {2, 1}}, Places{{2, 1}, {1, 2}}, Places{{4, 1}, {2, 1}}}) {
    for (const int zero : {0, 2}) {
      const Case c{.zero = zero};
      Case adapted = c, muon = c, clipped = c, both = c;
      adapted.lora_rank = both.lora_rank = 2;
      muon.muon = clipped.muon = both.muon = true;
      clipped.qk_clip = 0.02;
      for (const Case& with : {muon, clipped}) {
        expect_the_bits_of_one_rank(in_slices(uneven(of, with)));
      }
      for (const Case& with : {adapted, both}) {
        const Case split = uneven(of, with);
        Case one = with;
        one.is_wide = true;
        one.zero = 0;
        SCOPED_TRACE(split.name());
        const LayoutRun run = run_case(split);
        EXPECT_EQ(run.differences, "");
        expect_near(run, run_case(one));
      }
    }
  }
}

// A checkpoint knows no degrees: it is continued by other places, and by one rank, and back.
TEST(ParityOfUnevenTensors, ACheckpointMovesBetweenPlaces) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("trireme-places-{}", getpid()))
          .string();
  const Case one = in_slices({.is_wide = true});
  const Case first = in_slices(uneven({{1, 2}, {2, 1}}, {.zero = 1}));
  const Case second = in_slices(uneven({{4, 1}, {1, 1}}));
  const LayoutRun whole = run_layout(plan_of(one), {.end = 4});
  for (const auto& [from, to] :
       {std::pair{one, first}, std::pair{first, second}, std::pair{second, one}}) {
    run_layout(plan_of(from), {.end = 2, .save_to = folder});
    const LayoutRun rest =
        run_layout(plan_of(to), {.first = 2, .end = 4, .load_from = folder + "/step-000002"});
    EXPECT_EQ(rest.losses.back(), whole.losses.back()) << from.name() << " to " << to.name();
    EXPECT_EQ(rest.weights, whole.weights) << from.name() << " to " << to.name();
    std::filesystem::remove_all(folder);
  }
}

// A stage that more ranks share gets more layers.
TEST(ParityOfUnevenTensors, LayersFollowTheRanks) {
  const RunPlan plan = plan_of(uneven({{4, 1}, {1, 1}}));
  EXPECT_GT(plan.stages[0].num_layers, plan.stages[1].num_layers);
}

}  // namespace
}  // namespace trireme
