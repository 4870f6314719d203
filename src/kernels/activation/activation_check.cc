#include "kernels/activation/activation.h"
#include "kernels/argument_checks.h"

namespace trireme {
namespace {

void check_like(const char* name, const MatrixRef& x, const MatrixRef& model) {
  check_matrix(name, x, model.rows, model.cols, model.dtype);
}

}  // namespace

void check_activation_forward(const ActivationForwardArgs& args) {
  check_float("x", args.x_TF);
  check_like("y", args.y_TF, args.x_TF);
}

void check_activation_backward(const ActivationBackwardArgs& args) {
  check_float("x", args.x_TF);
  check_like("dy", args.dy_TF, args.x_TF);
  check_like("dx", args.dx_TF, args.x_TF);
}

void check_swiglu_forward(const SwigluForwardArgs& args) {
  check_float("gate", args.gate_TF);
  check_like("up", args.up_TF, args.gate_TF);
  check_like("y", args.y_TF, args.gate_TF);
}

void check_swiglu_backward(const SwigluBackwardArgs& args) {
  check_float("gate", args.gate_TF);
  check_like("dy", args.dy_TF, args.gate_TF);
  check_like("up", args.up_TF, args.gate_TF);
  check_like("dgate", args.dgate_TF, args.gate_TF);
  check_like("dup", args.dup_TF, args.gate_TF);
}

}  // namespace trireme
