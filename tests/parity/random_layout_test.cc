#include "random_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compile/run_plan.h"
#include "layout_laws.h"
#include "layout_run.h"
#include "planner/make_plan.h"
#include "schema/mesh.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

LayoutRun run_of(const RunConfig& config, int num_steps) {
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), command_of(config) + ": " + plan.error().message);
  plan->config.run.comm_timeout_s = 120.0;  // other tests may use the cores
  return run_layout(*plan, {.end = num_steps});
}

// Returns how two runs of the same model differ in the first step, from equal weights.
std::string beyond_bounds_of_one_rank(const RunConfig& config) {
  const LayoutRun split = run_of(config, 1), whole = run_of(on_one_rank(config), 1);
  // If two scores nearly tie, a token may visit another expert.
  if (split.expert_loads != whole.expert_loads) return "";
  return beyond_bounds(split, whole);
}

// Returns "" if the layout satisfies the laws of ARCHITECTURE.md, or the broken law.
std::string broken_law(const RunConfig& config) {
  constexpr int kNumSteps = 3;
  const LayoutRun run = run_of(config, kNumSteps);
  if (!run.differences.empty()) return run.differences;
  const RunConfig reference = bitwise_reference(config);
  if (has_bitwise_reference(config)) {
    const std::string other = difference(run, run_of(reference, kNumSteps));
    if (!other.empty()) return other + " of " + command_of(reference);
  }
  // The bounds are for sums in fp32.
  const bool is_split = !(reference == on_one_rank(config)) || !has_bitwise_reference(config);
  const bool is_fp32 = config.precision.compute == ComputeChoice::Fp32 &&
                       config.optim.grad_dtype == StateChoice::Fp32 &&
                       config.optim.moment_dtype == StateChoice::Fp32;
  const bool has_bounds = is_split && is_fp32;
  return has_bounds ? beyond_bounds_of_one_rank(config) : "";
}

// The seeds depend on --gtest_random_seed.
void expect_the_laws(int num_layouts) {
  const uint64_t first = 1000 * uint64_t(testing::GTEST_FLAG(random_seed));
  std::map<ScheduleKind, int> schedules;
  int num_uneven = 0;
  for (uint64_t seed = first; seed < first + uint64_t(num_layouts); ++seed) {
    std::string layout = "no layout", problem;
    try {
      const RunConfig config = random_layout(seed);
      ++schedules[config.parallel.schedule];
      if (mesh_of(config.parallel).is_uneven()) ++num_uneven;
      layout = command_of(config);
      problem = broken_law(config);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    EXPECT_EQ(problem, "") << "seed " << seed << ": " << layout;
  }
  EXPECT_GE(schedules.size(), size_t(std::min(num_layouts / 4, 8)));  // of ten
  EXPECT_GE(num_uneven, num_layouts / 20);
}

TEST(ParityOfRandomLayouts, TwentyLayoutsKeepTheLaws) { expect_the_laws(20); }
TEST(ParityOfRandomLayoutsInFull, ManyLayoutsKeepTheLaws) { expect_the_laws(300); }

}  // namespace
}  // namespace trireme
