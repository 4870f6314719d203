#include <fmt/format.h>

#include "kernels/argument_checks.h"
#include "kernels/convolution/convolution.h"

namespace trireme {
namespace {

void check_shapes(const ImageWindow& window, int64_t groups, const MatrixRef& x_PC,
                  const MatrixRef& w_FK, const MatrixRef& y_QF, DType dtype) {
  check_argument(
      window.size >= 1 && window.stride >= 1 && window.padding >= 0 && window.padding < window.size,
      "a window has a size and a stride of 1 or more, and less padding than its size");
  const int64_t zeros = 2 * window.padding;
  TRIREME_CHECK(window.fits_rows() && window.size <= window.width + zeros,
                fmt::format("a window of {} with padding {} does not fit images of {} x {}",
                            window.size, window.padding, window.height, window.width));
  TRIREME_CHECK(groups >= 1 && x_PC.cols % groups == 0 && y_QF.cols % groups == 0,
                fmt::format("{} groups do not divide {} channels and {} filters", groups, x_PC.cols,
                            y_QF.cols));
  check_float("x", x_PC);
  check_matrix("x", x_PC, window.in_pixels(), x_PC.cols, dtype);
  check_matrix("w", w_FK, y_QF.cols, window.size * window.size * (x_PC.cols / groups), w_FK.dtype);
  check_matrix("y", y_QF, window.out_pixels(), y_QF.cols, dtype);
}

}  // namespace

void check_convolution_forward(const ConvolutionForwardArgs& args) {
  const DType dtype = args.x_PC.dtype;
  check_shapes(args.window, args.groups, args.x_PC, args.w_FK, args.y_QF, dtype);
  check_matrix("w", args.w_FK, args.w_FK.rows, args.w_FK.cols, dtype);
  check_if_present("bias", args.bias_F, args.y_QF.cols, dtype);
}

void check_convolution_backward_input(const ConvolutionBackwardInputArgs& args) {
  const DType dtype = args.dx_PC.dtype;
  check_shapes(args.window, args.groups, args.dx_PC, args.w_FK, args.dy_QF, dtype);
  check_matrix("w", args.w_FK, args.w_FK.rows, args.w_FK.cols, dtype);
  const int64_t bytes =
      convolution_scratch(args.window, args.groups, args.dx_PC.cols, args.dy_QF.cols, dtype)
          .bytes();
  if (bytes > 0) check_tensor("scratch", args.scratch, bytes, DType::U8);
}

void check_convolution_backward_weight(const ConvolutionBackwardWeightArgs& args) {
  check_shapes(args.window, args.groups, args.x_PC, args.dw_FK, args.dy_QF, args.x_PC.dtype);
  check_state("dw", args.dw_FK, args.dw_FK.rows, args.dw_FK.cols);
}

}  // namespace trireme
