#include <gtest/gtest.h>

#include <algorithm>

#include "layout_case.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

RunPlan plan_with(const Case& c, bool pair) {
  RunConfig config = config_of(c);
  config.parallel.pair = pair;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), c.name() + ": " + plan.error().message);
  return *plan;
}

int64_t scratch_bytes(const RunPlan& plan) {
  return plan.largest().memory.class_bytes[size_t(MemoryClass::Scratch)];
}

// The two actions of a pair compute the same beside each other as one after the other, and send the
// same bytes. They need more scratch, which the plan has.
TEST(ParityOfPairs, ChangeNoBitAndNoByte) {
  const ScheduleKind dualpipe = ScheduleKind::Dualpipe, in_v = ScheduleKind::DualpipeV;
  const Case layouts[] = {
      {.pp = 2, .schedule = dualpipe, .tp = 2},
      {.pp = 2, .schedule = in_v, .family = "llama", .tp = 2, .sequence = true},
      {.pp = 2, .schedule = dualpipe, .cp = 2, .context = ContextExchange::AllToAll},
      {.pp = 2, .schedule = dualpipe, .dropout = 0.2, .tp = 2, .post_validate = true},
      {.dp = 2, .pp = 2, .schedule = dualpipe, .family = "moe", .ep = 2},
      {.dp = 2, .pp = 2, .schedule = in_v, .zero = 1, .family = "moe", .ep = 2},
      {.dp = 2, .schedule = in_v, .recompute = Recompute::Full, .family = "moe", .ep = 2},
      // Several lanes of a rank, of all ranks or of those of some places.
      {.dp = 2, .pp = 2, .schedule = dualpipe, .tp = 2, .order = "tp,cp,dp,pp", .stage_dp = "1,1"},
      {.dp = 2,
       .pp = 2,
       .schedule = in_v,
       .zero = 1,
       .family = "llama",
       .tp = 2,
       .order = "tp,cp,dp,pp",
       .stage_dp = "2,1"},
  };
  for (const Case& c : layouts) {
    SCOPED_TRACE(c.name());
    const RunPlan beside = plan_with(c, true), apart = plan_with(c, false);
    for (const RankPlan& rank : beside.pipeline) EXPECT_TRUE(has_pairs(rank.program));
    for (const RankPlan& rank : apart.pipeline) EXPECT_FALSE(has_pairs(rank.program));
    EXPECT_GT(scratch_bytes(beside), scratch_bytes(apart));
    const LayoutRun run = run_layout(beside), reference = run_layout(apart);
    EXPECT_EQ(difference(run, reference), "");
    EXPECT_EQ(run.differences, "");
    EXPECT_EQ(run.sent_bytes, reference.sent_bytes);
    EXPECT_EQ(run.val_loss, reference.val_loss);
  }
}

// If no transfer is inside the layers, or if other actions stand between the two, nothing is
// paired.
TEST(ParityOfPairs, AreMadeOnlyWhereTheyHideSomething) {
  const ScheduleKind dualpipe = ScheduleKind::Dualpipe;
  for (const Case& c : {Case{.pp = 2, .schedule = dualpipe},
                        Case{.dp = 2, .pp = 2, .schedule = dualpipe, .zero = 2, .tp = 2},
                        Case{.pp = 2, .schedule = ScheduleKind::OneFOneB, .tp = 2}}) {
    for (const RankPlan& rank : plan_with(c, true).pipeline) {
      EXPECT_FALSE(has_pairs(rank.program)) << c.name();
    }
  }
}

}  // namespace
}  // namespace trireme
