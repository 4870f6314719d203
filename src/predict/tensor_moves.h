#pragma once

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "spec/hardware.h"

namespace trireme {

// What one action moves between the tp ranks.
struct TensorMoves {
  int64_t sent_bytes = 0;
  double seconds =
      0.0;  // for which its compute waits; with tp_overlap also what smaller matmuls cost
};

// Of F, B, W or BW of a stage, from the list that the layers follow (stage_moves). Whole moves are
// waited for; those in pieces (parallel.tp_overlap) hide behind the matmul that they stand beside.
// Reads the rank's coords and shape.
TensorMoves price_tensor_moves(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage,
                               ActionKind kind, const LinkSpec& link, const Hardware& hardware,
                               CollectiveBytes& known);

}  // namespace trireme
