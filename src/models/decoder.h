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

// Generates from a whole model with a cache of keys and values, or of the latents that they are
// made from: the forward ops of its graphs, but attention reads the cache, and the head ends with
// the logits of the last token. It reads the parameters where they lie, in the compute dtype or as
// quantized_table has them, and owns everything else; nothing is allocated after construction.
class Decoder {
 public:
  Decoder(const ModelSpec& model, const Frame& params, DType compute);

  // Forgets the context.
  void reset() { length_ = 0; }
  int64_t length() const { return length_; }
  int64_t capacity() const { return model_.seq_len; }

  // Puts 1 .. capacity() - length() tokens behind the context and returns the logits of the token
  // that follows, fp32 [V], valid until the next call.
  std::span<const float> append(Ctx& ctx, std::span<const int32_t> tokens);

 private:
  void add_tables(const StageUnits& units);
  void bind_units(const StageUnits& units, const Frame& params);

  ModelShard model_;
  StageShape shape_;
  StageTables tables_;  // of values, all in the one table that `saved` and `scratch` both are
  Buffer memory_;
  std::vector<std::unique_ptr<OpBody>> ops_;  // of all units
  Linear head_;                               // makes the logits
  TensorRef tokens_S_;                        // S: capacity
  MatrixRef hidden_SC_;                       // what the head projects
  MatrixRef logits_1V_;
  int64_t length_ = 0;
};

}  // namespace trireme
