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
using AxisCounts = std::array<int64_t, kNumTrafficAxes>;  // bytes sent over each axis

inline void add_to(AxisCounts& sum, const AxisCounts& addend, int64_t times = 1) {
  for (size_t axis = 0; axis < sum.size(); ++axis) sum[axis] += times * addend[axis];
}

// An action that sends something, and the number of actions of the program that send the same
// bytes.
struct RepeatedAction {
  // action.peer is the tp degree of the other place for a transfer, and else a side (before,
  // behind, own).
  Action action;
  int64_t times = 0;
  friend bool operator==(const RepeatedAction&, const RepeatedAction&) = default;
};
// Groups the sending actions of one rank. The order of the result depends only on the actions. `pp`
// is the rank's pipeline index.
std::vector<RepeatedAction> repeated_actions(const Mesh& mesh, std::span<const Action> actions,
                                             int pp);

// Returns the bytes that an action reads from or writes to the file of memory.offload; 0 if it uses
// no file.
int64_t file_bytes(const RankPlan& rank, const Action& action);

// Returns the number of layers and modules of multi-token prediction of a stage, each of which has
// a block. A module recomputes nothing.
inline int64_t num_blocks(const ModelSpec& model, const StageSpec& stage) {
  return stage.num_layers + (stage.has_head ? model.mtp_depth : 0);
}

// Counts the bytes that the runtime sends for each action (runtime/data_parallel.cc,
// runtime/pipeline.cc). Caches its results for ranks, layers and buckets that are alike.
class ActionTraffic {
 public:
  ActionTraffic(const RunPlan& plan, CollectiveBytes& collective_bytes);
  ~ActionTraffic();

  // Returns the bytes that `rank` sends for one of repeated_actions. The exchange in Step is not
  // counted.
  AxisCounts sent(const RankPlan& rank, const Action& action);
  // Returns the bytes that a rank sends in the exchange in Step.
  int64_t sent_in_exchange(int position, const RankPlan& any_rank);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace trireme
