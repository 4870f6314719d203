#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

inline constexpr int32_t kIgnoredTarget = -1;
// A row of exponentials fits into one thread's workspace.
inline constexpr int64_t kMaxVocabSize = kWorkspaceBytesPerThread / int64_t{sizeof(float)};

// Softmax cross-entropy of one tile of rows. Per valid row: loss = lse - logits[target] (natural
// logarithm) and, where wanted, dlogits = softmax(logits) - onehot(target), not divided by
// anything. An ignored row has loss 0 and dlogits 0.
struct CrossEntropyArgs {
  MatrixRef logits_TV;  // fp32
  TensorRef targets_T;  // int32: in [0, V) or kIgnoredTarget
  TensorRef loss_T;     // fp32, written
  // fp32 or bf16, written; absent: not wanted. May share the logits' memory where every row begins
  // at the same byte (in bf16: twice the stride).
  MatrixRef dlogits_TV;
};
void cross_entropy_ref(Stream& stream, const CrossEntropyArgs& args);
void check_cross_entropy(const CrossEntropyArgs& args);  // throws ContractError

}  // namespace trireme
