#pragma once

#include <cstdint>
#include <string>

#include "compile/run_plan.h"
#include "predict/axis_counts.h"
#include "predict/collective_bytes.h"
#include "predict/gradient_traffic.h"
#include "predict/unit_traffic.h"

namespace trireme {

// Returns the bytes that an action reads from or writes to the file of memory.offload; 0 if it uses
// no file.
int64_t file_bytes(const RankPlan& rank, const Action& action);

// Counts the bytes that the runtime sends for each action (runtime/data_parallel.cc,
// runtime/pipeline.cc). Its parts cache results for ranks, layers and buckets that are alike, so
// one object should count all ranks. The arguments must live as long as this.
class ActionTraffic {
 public:
  ActionTraffic(const RunPlan& plan, CollectiveBytes& collective_bytes);

  // Returns the bytes that `rank` sends for one of repeated_actions. The exchange in Step is not
  // counted.
  AxisCounts sent(const RankPlan& rank, const Action& action);
  // Returns the bytes that a rank sends in the exchange in Step.
  int64_t sent_in_exchange(int position, const RankPlan& any_rank);

 private:
  AxisCounts sent_in_message(const RankPlan& rank, const Action& action,
                             const std::string& name) const;

  const RunPlan& plan_;
  CollectiveBytes& collective_bytes_;
  UnitTraffic units_;
  GradientTraffic gradients_;
};

}  // namespace trireme
