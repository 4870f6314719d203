#pragma once

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "schema/hardware.h"

namespace trireme {

// A layer exchanges twice in each direction: once where a block begins and once where it ends.
inline constexpr double kExchangesOfLayer = 2.0;

// Prices the collectives of F, B, W or BW of a chunk, or of Step: for each axis the bytes that this
// rank sends divided by the bandwidth of the link, and the link's latency for each exchange of a
// layer. Reads the chunk's stage and, for Step, the shards that the rank owns.
LayerComm predict_layer_comm(const RunPlan& plan, const RankPlan& rank, const Action& action,
                             const Hardware& hardware, CollectiveBytes& collective_bytes);

}  // namespace trireme
