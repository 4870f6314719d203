#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

inline constexpr int32_t kIgnoredTarget = -1;
inline constexpr int64_t kMaxVocabSize = int64_t{1} << 20;

// Softmax cross-entropy of one tile of rows whose vocabulary may be split over several ranks. It
// takes three calls: the statistics of each row over one part of the columns, the loss from the
// statistics of all parts, and the gradient of one part's columns. For a valid row loss = lse -
// logits[target] (natural logarithm) and dlogits = softmax(logits) - onehot(target), not divided by
// anything. An ignored row has loss 0 and dlogits 0.

// Writes rows 0 .. 2 of the part: the largest logit of these columns, the sum of their exponentials
// relative to it, and the target's logit, or 0 if no column here is the target. An ignored row gets
// 0, 1 and 0.
struct SoftmaxPartArgs {
  MatrixRef logits_TV;  // fp32: columns first_token .. first_token + V - 1
  TensorRef targets_T;  // int32: in [0, num_tokens) or kIgnoredTarget
  int64_t first_token = 0;
  int64_t num_tokens = 0;  // of the whole vocabulary; 0: all columns are here
  MatrixRef part_3T;       // fp32
};
void softmax_part_ref(Stream& stream, const SoftmaxPartArgs& args);
void check_softmax_part(const SoftmaxPartArgs& args);  // throws ContractError

// Joins the parts in their order. max and sum are those of the whole row; 0 and 1 for an ignored
// row.
struct CrossEntropyArgs {
  MatrixRef parts_3RT;  // fp32: rows 3r .. 3r + 2 are part r
  TensorRef targets_T;
  TensorRef loss_T, max_T, sum_T;  // fp32, written
  // May be absent. fp32, written: 1 if no token has a larger logit than the target, else 0. An
  // ignored row gets 0. It may be the same tensor as sum_T, whose sums are then lost.
  TensorRef hit_T = {};
};
void cross_entropy_ref(Stream& stream, const CrossEntropyArgs& args);
void check_cross_entropy(const CrossEntropyArgs& args);  // throws ContractError

struct CrossEntropyGradientArgs {
  MatrixRef logits_TV;
  TensorRef targets_T;
  int64_t first_token = 0;
  TensorRef max_T, sum_T;
  // Written, in a compute dtype. It may share the memory of the logits if every row begins at the
  // same byte (for bf16 and fp16: with twice the stride).
  MatrixRef dlogits_TV;
  float scale = 1.0f;  // factor of dlogits, a power of two
};
void cross_entropy_gradient_ref(Stream& stream, const CrossEntropyGradientArgs& args);
void check_cross_entropy_gradient(const CrossEntropyGradientArgs& args);  // throws ContractError

}  // namespace trireme
