#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "spec/run_config_choices.h"

namespace trireme {

inline constexpr Recompute kRecomputes[] = {Recompute::None, Recompute::Selective, Recompute::Full};

// Rows of the vocabulary projection whose fp32 logits exist at one time.
inline constexpr int64_t kLossTileTokens = 128;

// Into how many slices a layer is cut at most where sums may not follow tp.
inline constexpr int kMostSlices = 8;

// Optimiser state of a parameter table: which moments there are follows the optimiser.
struct OptimizerStateSpec {
  bool exp_avg = true;
  bool exp_avg_sq = true;
};

// What decides the memory of one stage, beside the model.
struct StageShape {
  int64_t micro_sequences = 1;
  DType compute = DType::F32;
  Recompute recompute = Recompute::None;
  bool split_backward = false;  // B and W are separate actions: W's inputs live from B to W
  bool tied_use_apart = false;  // each use of a tied parameter has its own gradient sum
  OptimizerStateSpec optimizer_state = {};
  int tp = 1;  // ranks that share every layer
  int tp_rank = 0;
  // Into how many slices every layer is cut, whatever tp is, so that sums do not follow tp; 0: one
  // for each tp rank (LayerSlices).
  int slices = 0;
  bool sequence_parallel = false;  // they share the tokens of the residual stream, too
  bool tp_overlap = false;         // rows of them move while others are multiplied
  int cp = 1;                      // ranks that share every sequence (ContextChunks)
  int cp_rank = 0;
  ContextExchange context_exchange = ContextExchange::Ring;
  int ep = 1;  // ranks that share the experts, of cp and then of dp
  int ep_rank = 0;
};

}  // namespace trireme
