#pragma once

#include "calibrate/cold_operands.h"
#include "graph/op_work.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace trireme {

// Attention of one shape with its operands, to be called again and again. As in a step, the
// products before it have just written what the forward pass reads, and what it writes and the
// backward pass reads again was touched long ago.
class AttentionBench {
 public:
  // `cold` has the operands that were touched long ago.
  AttentionBench(const AttentionShape& shape, DType dtype, ColdOperands& cold);
  void forward(const KernelTable& kernels, Stream& stream);
  void backward(const KernelTable& kernels, Stream& stream);
  AttentionWork work() const;

 private:
  AttentionShape shape_;
  DType dtype_;
  Tensor q_, k_, v_, dout_, dq_, dk_, dv_, lse_, delta_;
  ColdOperands& cold_;
};

}  // namespace trireme
