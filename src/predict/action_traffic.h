#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"

namespace trireme {

// The axes of kTrafficAxes (predict/predict.h), in that order.
enum TrafficAxis { kDp, kTp, kPp, kCp, kEp, kWorld, kFile, kNumTrafficAxes };
using AxisCounts = std::array<int64_t, kNumTrafficAxes>;  // bytes

inline void add_to(AxisCounts& sum, const AxisCounts& addend, int64_t times = 1) {
  for (size_t axis = 0; axis < sum.size(); ++axis) sum[axis] += times * addend[axis];
}

// An action that sends something, and how often a program has one that sends the same.
struct RepeatedAction {
  Action action;  // its peer is the side on which the rank that is joined stands
  int64_t times = 0;
  friend bool operator==(const RepeatedAction&, const RepeatedAction&) = default;
};
// Those of a rank's actions in an order that follows from what they are; `pp`: its index.
std::vector<RepeatedAction> repeated_actions(std::span<const Action> actions, int pp);

// Counts what the runtime sends for each action (runtime/data_parallel.cc, runtime/pipeline.cc).
// Remembers what it has worked out for ranks, layers and buckets that are alike.
class ActionTraffic {
 public:
  ActionTraffic(const RunPlan& plan, int ranks_per_node, CollectiveBytes& known);
  ~ActionTraffic();

  // What `rank` sends for one of repeated_actions, without the words of the exchange in Step.
  AxisCounts sent(const RankPlan& rank, const Action& action);
  // Those words.
  int64_t sent_in_exchange(int position, int64_t num_words);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace trireme
