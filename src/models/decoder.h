#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "memory/stage_units.h"
#include "nn/linear.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"

namespace trireme {

// The tokens that a call of Decoder::append appends to one sequence.
struct NextTokens {
  int64_t sequence = 0;
  std::span<const int32_t> tokens;  // 1 .. capacity() - length(sequence)
};

// Generates from a whole model, for one sequence or several at once, with a cache of keys and
// values, or of the latents that they are made from: the forward ops of its graphs, but attention
// reads the cache, and the head ends with the logits of the last tokens. It reads the parameters
// where they lie, in the compute dtype or as quantized_table has them, and owns everything else;
// nothing is allocated after construction.
class Decoder {
 public:
  // `num_sequences` is at most the context of the model.
  Decoder(const ModelSpec& model, const Frame& params, DType compute, int64_t num_sequences = 1);

  int64_t num_sequences() const { return int64_t(lengths_.size()); }
  int64_t capacity() const { return model_.seq_len; }  // of each sequence, in tokens
  int64_t length(int64_t sequence = 0) const { return lengths_[size_t(sequence)]; }
  // Returns the bytes of the keys and values of a sequence whose context is full.
  int64_t cache_bytes() const;
  // Forgets the context.
  void reset(int64_t sequence = 0) { lengths_[size_t(sequence)] = 0; }

  // Appends tokens to the contexts of sequences and computes the logits of the token that follows
  // each. The numbers of the sequences ascend; all tokens together are at most capacity(). The
  // logits have the same bits as without the other sequences. With quantized parameters, this holds
  // only for calls of at most QuantizedMatmulArgs::kFewRows tokens.
  void append(Ctx& ctx, std::span<const NextTokens> next);
  // Returns the logits of the k-th sequence of the last call, fp32 [V], valid until the next call.
  std::span<const float> logits(int64_t k) const;
  // Appends tokens to the context of the first sequence alone, and returns its logits.
  std::span<const float> append(Ctx& ctx, std::span<const int32_t> tokens);

 private:
  void add_tables(const StageUnits& units);
  void bind_units(const StageUnits& units, const Frame& params);
  void take(std::span<const NextTokens> next);

  ModelShard model_;
  StageShape shape_;
  StageTables tables_;  // of values, all in the one table that `saved` and `scratch` both are
  Buffer memory_;
  std::vector<std::unique_ptr<OpBody>> ops_;  // of all units
  Linear head_;                               // makes the logits
  TensorRef tokens_T_, position_T_;           // T: the most tokens of a call
  MatrixRef hidden_TC_;                       // what the head projects
  MatrixRef last_BC_;                         // of the last tokens; B: the sequences
  MatrixRef logits_BV_;
  std::vector<int64_t> lengths_;         // of the sequences
  std::vector<CachedRows> cached_rows_;  // of a call; its memory is kept
};

}  // namespace trireme
