#pragma once

#include "device/stream.h"
#include "kernels/write.h"
#include "tensor/matrix.h"

namespace trireme {

// Layer: y = (x - mean) * rstd * gain + bias.  Rms: y = x * rstd * gain, rstd =
// 1/sqrt(mean(x^2)+eps). Statistics and arithmetic are fp32. x, y, gain and bias have one dtype
// (fp32 or bf16); y is rounded once.
enum class NormKind { Layer, Rms };

struct NormForwardArgs {
  NormKind kind = NormKind::Layer;
  float eps = 1e-5f;
  MatrixRef x_TC;
  TensorRef gain_C;  // absent: 1
  TensorRef bias_C;  // absent: 0; Layer only
  MatrixRef y_TC;    // written
  TensorRef mean_T;  // fp32, written; absent for Rms
  TensorRef rstd_T;  // fp32, written
};
void norm_forward_ref(Stream& stream, const NormForwardArgs& args);
void check_norm_forward(const NormForwardArgs& args);  // throws ContractError

// dx = dresidual + (d norm / d x)^T dy, rounded once.
struct NormBackwardInputArgs {
  NormKind kind = NormKind::Layer;
  MatrixRef dy_TC;
  MatrixRef x_TC;
  TensorRef gain_C;
  TensorRef mean_T;
  TensorRef rstd_T;
  MatrixRef dresidual_TC;  // absent: 0; may be dx itself
  MatrixRef dx_TC;         // written
};
void norm_backward_input_ref(Stream& stream, const NormBackwardInputArgs& args);
void check_norm_backward_input(const NormBackwardInputArgs& args);  // throws ContractError

// Sums over tokens in an order that depends only on T.
struct NormBackwardWeightArgs {
  NormKind kind = NormKind::Layer;
  MatrixRef dy_TC;
  MatrixRef x_TC;
  TensorRef mean_T;
  TensorRef rstd_T;
  TensorRef dgain_C;  // fp32 or bf16; absent: not needed
  TensorRef dbias_C;  // of the dtype of dgain; absent: not needed, as for Rms
  Write write = Write::Overwrite;
};
void norm_backward_weight_ref(Stream& stream, const NormBackwardWeightArgs& args);
void check_norm_backward_weight(const NormBackwardWeightArgs& args);  // throws ContractError

}  // namespace trireme
