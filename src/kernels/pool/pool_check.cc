#include <fmt/format.h>

#include "kernels/argument_checks.h"
#include "kernels/pool/pool.h"

namespace trireme {
namespace {

void check_shapes(const ImageWindow& window, const MatrixRef& x_PC, const MatrixRef& y_QC) {
  check_argument(window.size >= 1 && window.stride >= 1 && window.padding >= 0 &&
                     2 * window.padding <= window.size,
                 "a pooled window has a size and a stride of 1 or more, and at most half its size "
                 "as padding, so that it always has a pixel");
  const int64_t zeros = 2 * window.padding;
  TRIREME_CHECK(window.fits_rows() && window.size <= window.width + zeros,
                fmt::format("a window of {} with padding {} does not fit images of {} x {}",
                            window.size, window.padding, window.height, window.width));
  check_float("x", x_PC);
  check_matrix("x", x_PC, window.in_pixels(), x_PC.cols, x_PC.dtype);
  check_matrix("y", y_QC, window.out_pixels(), x_PC.cols, x_PC.dtype);
}

}  // namespace

void check_pool_forward(const PoolForwardArgs& args) {
  check_shapes(args.window, args.x_PC, args.y_QC);
}

void check_pool_backward(const PoolBackwardArgs& args) {
  check_shapes(args.window, args.dx_PC, args.dy_QC);
  check_argument(args.window.width <= 4096, "a pooled image has at most 4,096 columns");
  if (args.kind == PoolKind::Max) {
    check_matrix("x", args.x_PC, args.dx_PC.rows, args.dx_PC.cols, args.dx_PC.dtype);
  }
}

}  // namespace trireme
