#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/align.h"
#include "base/dtype.h"
#include "schema/layer_rules.h"
#include "schema/run_config_choices.h"

namespace trireme {

// The policies that name no limit of memory.
inline constexpr Recompute kRecomputes[] = {Recompute::None, Recompute::Selective, Recompute::Full};

// StageShape::again for all values at once.
inline constexpr uint64_t kEverythingAgain = ~uint64_t{0};

// Rows of the vocabulary projection whose fp32 logits exist at a time.
inline constexpr int64_t kLossTileTokens = 256;

// Returns the number of columns that a matrix of logits or of their gradients has in memory. Every
// row of 16- or 32-bit numbers begins at a cache line, because tile registers load rows that lie
// across lines slowly (docs/performance.md).
constexpr int64_t logit_columns(int64_t vocab_size) {
  constexpr int64_t kLineElements = kTensorAlignment / 2;
  return round_up(vocab_size, kLineElements);
}

// Maximum number of slices of a layer in the mode in which sums do not depend on tp.
inline constexpr int kMostSlices = 8;

// The optimizer state of a parameter table. The optimizer decides which moments exist.
struct OptimizerStateSpec {
  bool exp_avg = true;
  bool exp_avg_sq = true;
  DType moment = DType::F32;
  bool master = true;  // fp32 weights, where the parameters are not fp32 themselves
  // The optimizer is Muon: matrices of layers have no second moment, and borders between shards do
  // not cut them.
  bool muon = false;

  bool has_master(DType compute) const { return master && compute != DType::F32; }

  friend auto operator<=>(const OptimizerStateSpec&, const OptimizerStateSpec&) = default;
};

// Everything beside the model that decides the memory of one stage.
struct StageShape {
  int64_t micro_sequences = 1;
  DType compute = DType::F32;
  Recompute recompute = Recompute::None;
  bool split_backward = false;  // B and W are separate actions: inputs of W live from B to W
  bool tied_use_apart = false;  // each use of a tied parameter has its own gradient sum
  OptimizerStateSpec optimizer_state = {};
  int tp = 1;  // number of ranks that share every layer
  int tp_rank = 0;
  // Number of slices into which every layer is cut whatever tp is, so that sums do not depend on
  // tp. 0: one slice per tp rank (LayerSlices).
  int slices = 0;
  // The tp ranks also share the tokens of the residual stream; in a net of images, the images.
  bool sequence_parallel = false;
  bool tp_overlap = false;  // some rows are transferred while others are multiplied
  int cp = 1;               // number of ranks that share every sequence (ContextChunks)
  int cp_rank = 0;
  ContextExchange context_exchange = ContextExchange::Ring;
  // Ranks of dp whose micro-batches are one batch for batch norms (model.batch_norm). 1: each
  // micro-batch is a batch of its own.
  int batch_ranks = 1;
  // Equal parts of a micro-batch. The weights' gradients of each are summed on their own, and then
  // along a binary tree, so that micro-batches of another size leave the same bits.
  int64_t leaves = 1;
  int ep = 1;  // ranks that share the experts, first along cp, then along dp
  int ep_rank = 0;
  uint64_t again = 0;       // Recompute::Fit: the values that layers compute again (graph/keep.h)
  DType grad = DType::F32;  // of the parameters' gradients: fp32 or bf16
  bool documents = false;   // those of one sequence do not see each other (DataConfig)
  // With `documents`: how many keys a query sees on average without a window, itself included. 0:
  // unknown; attention then costs what it costs for one document per sequence.
  double document_keys = 0.0;
  bool reports_logits = false;  // attention reports the largest logit of every head (qk_clip)
  std::vector<LayerRule> layers = {};  // parallel.layers

  // True if the layers compute anything again.
  bool recomputes() const {
    return recompute == Recompute::Fit ? again != 0 : recompute != Recompute::None;
  }
  friend auto operator<=>(const StageShape&, const StageShape&) = default;
};

}  // namespace trireme
