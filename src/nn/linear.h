#pragma once

#include <array>

#include "nn/ctx.h"
#include "nn/quantized_weight.h"
#include "nn/slice_sum.h"
#include "tensor/matrix.h"

namespace trireme {

// y_TF = x_TC w_FC^T + b_F. A tp rank has some of the columns of x, or of y: then what it computes
// of y, or of dx, is an addend of a sum over ranks.
struct Linear {
  struct Params {
    MatrixRef w_FC;
    TensorRef b_F;              // absent: no bias
    QuantizedWeight quantized;  // instead of w_FC, for the forward pass alone
  };
  Params params;
  SliceSum over_x = {};  // of the columns of x
  SliceSum over_y = {};  // of those of each block of y
  // Columns of what stands side by side in y; 0: nothing more. None: y is one block.
  std::array<int64_t, 3> blocks = {};

  // With a residual, y = residual + x w^T + b; both are addends of the first slice.
  void forward(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TF, MatrixRef residual_TF = {}) const;
  // dx = addend + dy w; the addend may be absent, or dx itself.
  void backward_input(Ctx& ctx, MatrixRef dy_TF, MatrixRef dx_TC, MatrixRef addend_TC = {}) const;
  // The same for some rows.
  void forward_rows(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TF, int64_t begin, int64_t count) const {
    forward(ctx, rows_of(x_TC, begin, count), rows_of(y_TF, begin, count));
  }
  void backward_input_rows(Ctx& ctx, MatrixRef dy_TF, MatrixRef dx_TC, int64_t begin,
                           int64_t count) const {
    backward_input(ctx, rows_of(dy_TF, begin, count), rows_of(dx_TC, begin, count));
  }
  static void backward_weight(Ctx& ctx, MatrixRef dy_TF, MatrixRef x_TC, MatrixRef dw_FC,
                              Write write);
};

}  // namespace trireme
