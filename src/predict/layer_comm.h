#pragma once

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "spec/hardware.h"

namespace trireme {

// Seconds for which the compute waits for collectives inside the layers: all that they take, but
// for what parallel.tp_overlap hides behind matmuls (tensor_moves.h).
struct LayerComm {
  double tp = 0.0;
  double cp = 0.0;
  double ep = 0.0;

  double total() const { return tp + cp + ep; }
  LayerComm& operator+=(const LayerComm& other);
};

// Whether `count` ranks of an axis, `stride` positions apart, are on one node; size 1 always.
bool is_inside_node(int count, int stride, int ranks_per_node);

// What F, B, W or BW of a chunk, or Step, takes: the bytes that this rank sends along each axis at
// the bandwidth of the axis' link, and its latency for each exchange of a layer. Reads the chunk's
// stage and, for Step, what the rank owns.
LayerComm predict_layer_comm(const RunPlan& plan, const RankPlan& rank, const Action& action,
                             const Hardware& hardware, CollectiveBytes& known);

}  // namespace trireme
