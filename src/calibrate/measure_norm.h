#pragma once

#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace trireme {

// A layer norm of T tokens of C channels with its operands, to be called again and again.
class NormBench {
 public:
  NormBench(int64_t T, int64_t C, DType dtype);
  void forward(const KernelTable& kernels, Stream& stream) const;
  void input_grad(const KernelTable& kernels, Stream& stream) const;
  void weight_grad(const KernelTable& kernels, Stream& stream) const;

 private:
  Tensor x_, dy_, y_, dx_, gain_, bias_, mean_, rstd_, dgain_, dbias_;
};

}  // namespace trireme
