#pragma once

#include "device/stream.h"
#include "kernels/write.h"
#include "tensor/matrix.h"

namespace trireme {

// Layer scale (Touvron et al. 2021): each of the C channels has a gain. Matrices and gain have one
// dtype (fp32, bf16 or fp16); results are computed in fp32 and rounded once.

// y_tc = gain_c x_tc
struct ScaleForwardArgs {
  MatrixRef x_TC;
  TensorRef gain_C;
  MatrixRef y_TC;  // written; may be x
};
void scale_forward_ref(Stream& stream, const ScaleForwardArgs& args);
void check_scale_forward(const ScaleForwardArgs& args);  // throws ContractError

// dx_tc = addend_tc + gain_c dy_tc
struct ScaleBackwardInputArgs {
  MatrixRef dy_TC;
  TensorRef gain_C;
  MatrixRef addend_TC;  // absent: 0; may be dx itself
  MatrixRef dx_TC;      // written; may be dy
};
void scale_backward_input_ref(Stream& stream, const ScaleBackwardInputArgs& args);
void check_scale_backward_input(const ScaleBackwardInputArgs& args);  // throws ContractError

// dgain_c (+)= sum_t dy_tc x_tc, in an order that depends on T alone.
struct ScaleBackwardWeightArgs {
  MatrixRef dy_TC;
  MatrixRef x_TC;
  TensorRef dgain_C;  // fp32 or bf16
  Write write = Write::Overwrite;
};
void scale_backward_weight_ref(Stream& stream, const ScaleBackwardWeightArgs& args);
void check_scale_backward_weight(const ScaleBackwardWeightArgs& args);  // throws ContractError

}  // namespace trireme
