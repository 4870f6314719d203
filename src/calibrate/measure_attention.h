#pragma once

#include "graph/op_work.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace trireme {

// Attention of one shape with its operands, to be called again and again.
class AttentionBench {
 public:
  AttentionBench(const AttentionShape& shape, DType dtype);
  void forward(const KernelTable& kernels, Stream& stream) const;
  void backward(const KernelTable& kernels, Stream& stream) const;
  AttentionWork work() const;

 private:
  AttentionShape shape_;
  Tensor q_, k_, v_, dout_, out_, dq_, dk_, dv_, lse_, delta_;
};

}  // namespace trireme
