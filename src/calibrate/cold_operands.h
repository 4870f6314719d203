#pragma once

#include "kernels/bench_tensors.h"

namespace trireme {

// Operands of kernels that lie one behind the other in a buffer, round and round. If the buffer is
// larger than the caches, every call finds its operand in memory, as a step finds its weights.
class ColdOperands {
 public:
  // No operand may have more than `bytes`.
  explicit ColdOperands(int64_t bytes);
  // The content is small numbers, or what a kernel has written there.
  TensorRef next(DType dtype, Shape shape);

 private:
  Buffer buffer_;
  int64_t begin_ = 0;
};

}  // namespace trireme
