#include "kernels/argument_checks.h"
#include "kernels/scale/scale.h"

namespace trireme {

void check_scale_forward(const ScaleForwardArgs& args) {
  const MatrixRef& x_TC = args.x_TC;
  check_float("x", x_TC);
  check_tensor("gain", args.gain_C, x_TC.cols, x_TC.dtype);
  check_matrix("y", args.y_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
}

void check_scale_backward_input(const ScaleBackwardInputArgs& args) {
  const MatrixRef& dy_TC = args.dy_TC;
  check_float("dy", dy_TC);
  check_tensor("gain", args.gain_C, dy_TC.cols, dy_TC.dtype);
  check_if_present("addend", args.addend_TC, dy_TC.rows, dy_TC.cols, dy_TC.dtype);
  check_matrix("dx", args.dx_TC, dy_TC.rows, dy_TC.cols, dy_TC.dtype);
}

void check_scale_backward_weight(const ScaleBackwardWeightArgs& args) {
  const MatrixRef& x_TC = args.x_TC;
  check_float("x", x_TC);
  check_matrix("dy", args.dy_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_state("dgain", args.dgain_C, x_TC.cols);
}

}  // namespace trireme
