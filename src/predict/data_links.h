#pragma once

#include <vector>

#include "compile/collective_price.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// One collective of data parallelism, and how many bytes this rank sends in it.
struct DataCollective {
  RankSpan span;
  VectorMove move = VectorMove::AllReduce;
  double sent_bytes = 0.0;
};

// The links of data parallelism. Gradients are summed among the ranks that shard the parameters,
// and then among the replicas of these groups, which lie farther apart (hybrid sharding).
class DataLinks {
 public:
  // `hardware` must live as long as this object.
  DataLinks(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware);

  // The collectives of a ReduceGrad or Unshard in which our runtime sends so many bytes. Other
  // trainers may reduce gradients of another dtype.
  std::vector<DataCollective> collectives(ActionKind kind, double sent_bytes) const;
  // The copies of a shard, or of all parameters, which sum it among each other.
  const RankSpan& replicas() const { return replicas_; }
  // The bytes of gradients that the trainer sends where our runtime sends so many. Other trainers
  // may sum gradients of another dtype.
  double grad_bytes(double sent_bytes) const { return sent_bytes * grad_factor_; }
  // Seconds of one of these, or of all, made by the communication thread.
  double seconds(const DataCollective& part) const;
  double seconds(ActionKind kind, double sent_bytes) const;

 private:
  const Hardware& hardware_;
  double grad_factor_;
  RankSpan shards_, replicas_;
  double scattered_share_ = 0.0;
};

}  // namespace trireme
