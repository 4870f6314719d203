#include "planner/alternatives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compile/stage_cost.h"
#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"

namespace trireme {
namespace {

RunConfig config_of_four_ranks() {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.dp = 4;
  return config;
}

Alternative configured_of(const RunConfig& config, int64_t memory_bytes) {
  HostFacts host;
  host.memory_bytes = memory_bytes;
  const auto ways = alternatives(config, host, nominal_hardware()).value();
  return *std::find_if(ways.begin(), ways.end(),
                       [](const Alternative& way) { return way.is_configured; });
}

// The peak is that of one rank, as in the plan. Ranks of this machine share its memory, so their
// sum decides whether they have room.
TEST(Alternatives, PrintThePeakOfARankAndCompareTheSumWithThisMachine) {
  RunConfig config = config_of_four_ranks();
  const RunPlan plan = make_plan(config, {}).value();
  const int64_t of_a_rank = plan.largest().memory.arena_bytes, sum = plan.arena_bytes();
  ASSERT_GT(sum, 3 * of_a_rank);
  for (const int64_t memory_bytes : {sum, sum - 1}) {
    const Alternative way = configured_of(config, memory_bytes);
    EXPECT_EQ(way.arena_bytes, of_a_rank);
    EXPECT_EQ(way.refusal.empty(), memory_bytes == sum) << way.refusal;
    if (memory_bytes < sum) {
      EXPECT_TRUE(way.refusal.starts_with("its 4 ranks need ")) << way.refusal;
    }
  }
  config.memory.limit_bytes = of_a_rank;
  EXPECT_EQ(configured_of(config, 1).refusal, "");
  EXPECT_EQ(configured_of(config, 1).arena_bytes, of_a_rank);
}

}  // namespace
}  // namespace trireme
