#pragma once

#include "schema/context_chunks.h"
#include "schema/model_spec.h"
#include "schema/placement.h"
#include "schema/stage_shape.h"

namespace trireme {

// Neighbouring slices (not those of a checkpoint's tensors) of a layer's heads, hidden units and
// rows of the vocabulary, of which every tp rank has as many. What a slice adds to a sum over the
// layer is a sum of its own; these are added along the binary tree over all slices, part of it on a
// rank and the rest by the ranks' all-reduce. So, where there are as many slices whatever tp is,
// every sum has the same bits.
struct LayerSlices {
  int all = 1;
  int first = 0;  // this rank's
  int count = 1;
  bool are_fixed = false;  // whatever tp is

  static LayerSlices of(const StageShape& shape);
  // Where this rank's `slice` of `total` begins in the whole; the last one ends at begin(count).
  int64_t begin(int64_t total, int slice) const {
    return balanced_begin(total, all, first + slice);
  }
};

// What one tensor-parallel rank holds of a model: a model of its own, with this rank's heads,
// kv_heads, d_ff, dense_d_ff and rows of the vocabulary. Nothing is padded: slices are balanced,
// and may differ by one. Where kv heads are fewer than ranks, neighbouring ranks hold the same one.
struct ModelShard : ModelSpec {
  int64_t first_head = 0;
  int64_t first_kv_head = 0;
  int64_t first_ff = 0;
  int64_t first_dense_ff = 0;
  int64_t first_token = 0;
  int64_t num_tokens = 0;  // of the whole vocabulary; vocab_size counts this rank's rows
  LayerSlices slices;
  int kv_copies = 1;     // neighbouring ranks that hold this rank's kv heads
  ContextChunks chunks;  // of every sequence, this rank's; seq_len counts all tokens
  int ep = 1;            // ranks that share the experts
  int64_t local_len() const { return chunks.local_len(); }
  // Visits that an expert takes of a micro-batch of which every rank of cp has `num_tokens`.
  int64_t taken_by_expert(int64_t num_tokens) const {
    return expert_capacity(num_tokens * chunks.cp);
  }
  // Visits of this rank's `num_tokens` that all experts can take.
  int64_t sent_rows(int64_t num_tokens) const;
  // Rows that the experts of this rank may be given: by every rank, all visits of its `num_tokens`
  // that they can take. With all experts on one rank these are sent_rows.
  int64_t held_rows(int64_t num_tokens) const;
  // How the residual stream [tokens, d_model] lies over the tp ranks between the blocks: invariant,
  // or, with sequence parallelism, shard(0).
  Placement residual = Placement::invariant();
  // Whether tokens cross the edges of attention and MLP in pieces (RowPieces).
  bool tp_overlap = false;
  std::vector<LayerRule> layers;  // StageShape::layers
};

// What crosses an edge while other rows are multiplied: parts of ranks go round a ring; sums over
// all ranks are those of so many pieces.
inline constexpr int kRowPieces = 4;
// What a block reads of the residual stream, and what it adds to it: each rank has the addends of
// its own heads, hidden units or rows of the vocabulary. Each is how the other's gradient goes
// back.
constexpr Redistribution enter_block(Placement residual) {
  return {residual, Placement::replicate()};
}
constexpr Redistribution leave_block(Placement residual) {
  return {Placement::partial(), residual};
}
static_assert(backward_of(enter_block(Placement::shard(0))) == leave_block(Placement::shard(0)));

// Each rank knows the softmax of its own columns of the vocabulary; all then know every rank's.
constexpr Redistribution join_softmax() { return {Placement::shard(0), Placement::invariant()}; }

// Each rank knows sums over its own images; all then know those of every rank.
constexpr Redistribution gather_sums() { return {Placement::shard(0), Placement::invariant()}; }

ModelShard shard_model(const ModelSpec& model, const StageShape& shape);

}  // namespace trireme
