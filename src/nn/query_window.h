#pragma once

#include "nn/op_binding.h"

namespace trireme {

// The first keys that queries see: the first one of their document, or of the sliding window
// (ModelSpec::window) if that begins later. It is written into scratch of the op.
class QueryWindow {
 public:
  explicit QueryWindow(const OpBinding& b);
  // Returns the documents of a micro-batch with the first keys of the windows. `num_tokens`: tokens
  // of this rank.
  Documents operator()(const MicrobatchInfo& info, const SlotMemory& m, int64_t num_tokens) const;

 private:
  int64_t window_;
  ContextChunks chunks_;
  TensorAt first_T_, first_N_;
};

// The extents of attention among this rank's tokens.
AttentionShape attention_shape(const ModelShard& model, int64_t num_sequences);

}  // namespace trireme
