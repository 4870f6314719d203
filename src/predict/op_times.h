#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"
#include "graph/op_half.h"
#include "schema/hardware.h"

namespace trireme {

// What limits an op, by which its price is made.
enum class OpLimit : uint8_t { Products, Attention, Memory };

// The time of one op in one step of a rank, of all its micro-batches together.
struct OpTimes {
  std::string unit;  // "embedding", "layers.3", "head"
  std::string op;    // inside its unit: "attn.wo"
  OpLimit limit = OpLimit::Memory;
  double flops = 0.0;  // of its products, without those that are computed again
  OpSeconds seconds = {};
};

// Prices every op of the rank's stages: chunk by chunk, unit by unit, in the order of F. What is
// computed again counts as Forward. Transfers are not included.
std::vector<OpTimes> predict_ops(const RunPlan& plan, const RankPlan& rank,
                                 const Hardware& hardware);

// What was predicted and what was measured, op by op; `measured` may be empty.
struct OpComparison {
  std::vector<OpTimes> predicted, measured;
};

// The same ops with the times that were measured in `steps` steps together.
std::vector<OpTimes> mean_ops(std::vector<OpTimes> ops, const std::vector<OpSeconds>& measured,
                              int64_t steps);

// Adds up ops of the same name in all layers, with the unit "layers".
std::vector<OpTimes> sum_of_layers(const std::vector<OpTimes>& ops);

}  // namespace trireme
