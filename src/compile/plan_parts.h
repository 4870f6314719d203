#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// What plans of one model and configuration share though their layouts differ, worked out once.
class PlanParts {
 public:
  // That of the plan's configuration and batch, checked, with transfers.
  Result<Schedule> schedule(const RunPlan& plan);
  // The rest needs plan.shape.
  std::shared_ptr<const NormChunks> norm_chunks(const RunPlan& plan);
  Status check_placements(const RunPlan& plan, const StageSpec& stage);

 private:
  static constexpr size_t kMostActions = 2'000'000;           // of all schedules that are kept
  using Asked = std::tuple<ScheduleKind, int, int, int64_t>;  // kind, pp, chunks, micro-batches

  std::map<Asked, Schedule> schedules_;
  size_t num_actions_ = 0;
  std::map<int, std::shared_ptr<const NormChunks>> norm_chunks_;     // [tp]
  std::set<std::tuple<int, int, int, int64_t, bool, bool>> placed_;  // tp, cp, ep, stage's units
};

}  // namespace trireme
