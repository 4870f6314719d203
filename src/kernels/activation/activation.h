#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

// Element-wise functions, computed in fp32 and rounded once. All matrices have one dtype (fp32,
// bf16 or fp16).
// GeluTanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)));  GeluErf: 0.5 x (1 + erf(x / sqrt 2)).
// Relu2: max(0, x)^2 (So et al. 2021).
enum class Activation { GeluTanh, GeluErf, Relu, Relu2 };

struct ActivationForwardArgs {
  Activation kind = Activation::GeluTanh;
  MatrixRef x_TF;
  MatrixRef y_TF;  // written; may be x
};
void activation_forward_ref(Stream& stream, const ActivationForwardArgs& args);
void check_activation_forward(const ActivationForwardArgs& args);  // throws ContractError

struct ActivationBackwardArgs {
  Activation kind = Activation::GeluTanh;
  MatrixRef dy_TF;
  MatrixRef x_TF;   // the input of forward
  MatrixRef dx_TF;  // written; may be dy
};
void activation_backward_ref(Stream& stream, const ActivationBackwardArgs& args);
void check_activation_backward(const ActivationBackwardArgs& args);  // throws ContractError

// SwiGLU (Shazeer 2020): y = silu(gate) * up.
struct SwigluForwardArgs {
  MatrixRef gate_TF;
  MatrixRef up_TF;
  MatrixRef y_TF;  // written
};
void swiglu_forward_ref(Stream& stream, const SwigluForwardArgs& args);
void check_swiglu_forward(const SwigluForwardArgs& args);  // throws ContractError

struct SwigluBackwardArgs {
  MatrixRef dy_TF;
  MatrixRef gate_TF;
  MatrixRef up_TF;
  MatrixRef dgate_TF;  // written
  MatrixRef dup_TF;    // written
};
void swiglu_backward_ref(Stream& stream, const SwigluBackwardArgs& args);
void check_swiglu_backward(const SwigluBackwardArgs& args);  // throws ContractError

}  // namespace trireme
