#pragma once

#include <array>

#include "compile/collective_price.h"
#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "schema/hardware.h"

namespace trireme {

// Cost of the transfers between the ranks of one axis in one action.
struct TensorMoves {
  int64_t sent_bytes = 0;
  double seconds =
      0.0;  // time that compute waits; with tp_overlap it includes the cost of smaller matmuls
  // Of the transfers that are not made in pieces, by VectorMove.
  std::array<LargestCollective, kNumVectorMoves> largest;
};

// Prices the transfers of F, B, W or BW of a stage, from the same list that the layers execute
// (stage_moves). Compute waits for whole transfers. Transfers in pieces (parallel.tp_overlap) hide
// behind the matmul beside them. The axis is tp, or dp for the sums of batch norms over all images
// of a step. Reads the rank's coords and shape.
TensorMoves price_tensor_moves(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage,
                               MeshAxis axis, ActionKind kind, const Hardware& hardware,
                               CollectiveBytes& collective_bytes);

}  // namespace trireme
