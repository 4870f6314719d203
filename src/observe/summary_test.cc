#include "observe/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "planner/make_plan.h"
#include "train/run_fixture.h"

namespace trireme {
namespace {

// A summary that is written from metrics.jsonl has no zeros for what nobody knows any more.
TEST(Summary, LeavesOutWhatOnlyALostRankHadMeasured) {
  const RunPlan plan = make_plan(some_run(), {}).value();
  const auto written = [&](bool is_late) {
    const RunSummary summary{.steps = 7, .final_loss = 1.5, .is_late = is_late, .end = "finished"};
    return parse_json(summary_json(plan, predict_ranks(plan, {}), {}, summary));
  };
  const nlohmann::json late = written(true), whole = written(false);
  EXPECT_EQ(late["from_metrics"], true);
  EXPECT_EQ(late["final_loss"], 1.5);
  for (const char* key : {"saves", "memory_saves", "goodput", "ops", "rss_peak", "hardware",
                          "seconds", "peak_flops", "cores_taken_by_others", "diagnosis"}) {
    EXPECT_FALSE(late.contains(key)) << key;
    EXPECT_TRUE(whole.contains(key)) << key;
  }
}

}  // namespace
}  // namespace trireme
