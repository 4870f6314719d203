// Frozen parameters keep their initial bits. The others get the same bits on every layout.

#include <gtest/gtest.h>

#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

constexpr const char* kFrozen = "embedding.*, layers.0.*, layers.*.attn.wq";

TEST(ParityOfFrozen, EveryLayoutLeavesTheBitsOfOneRank) {
  for (Case c : {Case{.dp = 4, .zero = 3}, Case{.dp = 2, .pp = 4, .zero = 1},
                 Case{.dp = 2, .zero = 2, .tp = 2}, Case{.dp = 2, .offload = OffloadChoice::All},
                 Case{.dp = 2, .zero = 2, .muon = true}}) {
    c.frozen = kFrozen;
    expect_the_bits_of_one_rank(c);
  }
}

TEST(ParityOfFrozen, TheyKeepTheirBitsAndTheOthersMove) {
  const Case free{}, frozen{.frozen = kFrozen};
  const LayoutRun start = run_layout(plan_of(free), {.end = 0, .evaluates = false});
  const LayoutRun run = run_case(frozen);
  for (const auto& [name, values] : run.weights) {
    const bool is_frozen =
        name.starts_with("embedding.") || name.starts_with("layers.0.") || name.ends_with(".wq");
    EXPECT_EQ(values == start.weights.at(name), is_frozen) << name;
    EXPECT_EQ(run.first_moments.count(name), is_frozen ? 0u : 1u) << name;
  }
}

TEST(ParityOfFrozen, APatternThatMatchesNothingOrEverythingIsRefused) {
  for (const char* patterns : {"layers.*,heads.*", "*"}) {
    const Result<RunPlan> plan = make_plan(config_of({.frozen = patterns}), {});
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find("optim.frozen"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
