#include "nn/linear.h"

#include "nn/product.h"

namespace trireme {

void Linear::forward(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TF, MatrixRef residual_TF) const {
  if (params.quantized) {
    return ctx.kernels.quantized_matmul(ctx.stream, {.x_TC = x_TC,
                                                     .w = params.quantized.w,
                                                     .unpacked_FC = params.quantized.unpacked_FC(),
                                                     .y_TF = y_TF,
                                                     .bias_F = params.b_F,
                                                     .residual_TF = residual_TF});
  }
  const int64_t width = x_TC.cols / over_x.num_slices();
  over_x(ctx, y_TF, [&](int slice, const MatrixRef& addend_TF) {
    const bool is_first = slice == 0;
    multiply(ctx, {.form = MatmulForm::NT,
                   .a = cols_of(x_TC, slice * width, width),
                   .b = cols_of(params.w_FC, slice * width, width),
                   .c = addend_TF,
                   .bias_N = is_first ? params.b_F : TensorRef{},
                   .residual_MN = is_first ? residual_TF : MatrixRef{}});
  });
}

void Linear::backward_input(Ctx& ctx, MatrixRef dy_TF, MatrixRef dx_TC, MatrixRef addend_TC) const {
  const std::array<int64_t, 3> all = {dy_TF.cols};
  over_y(ctx, dx_TC, [&](int slice, const MatrixRef& of_slice_TC) {
    const MatrixRef before = slice == 0 ? addend_TC : MatrixRef{};
    int64_t begin = 0;
    for (const int64_t cols : blocks[0] > 0 ? blocks : all) {
      if (cols == 0) break;
      const int64_t width = cols / over_y.num_slices(), first = begin + slice * width;
      multiply(ctx, {.form = MatmulForm::NN,
                     .a = cols_of(dy_TF, first, width),
                     .b = rows_of(params.w_FC, first, width),
                     .c = of_slice_TC,
                     .residual_MN = begin > 0 ? of_slice_TC : before});
      begin += cols;
    }
  });
}

void Linear::backward_weight(Ctx& ctx, MatrixRef dy_TF, MatrixRef x_TC, MatrixRef dw_FC,
                             Write write) {
  multiply(ctx, {.form = MatmulForm::TN, .a = dy_TF, .b = x_TC, .c = dw_FC, .write = write});
}

}  // namespace trireme
