#include "calibrate/measure_norm.h"

#include "kernels/bench_tensors.h"

namespace trireme {

NormBench::NormBench(int64_t T, int64_t C, DType dtype)
    : x_(varied(dtype, Shape{T, C})),
      dy_(varied(dtype, Shape{T, C})),
      y_(dtype, Shape{T, C}),
      dx_(dtype, Shape{T, C}),
      gain_(varied(dtype, Shape{C})),
      bias_(varied(dtype, Shape{C})),
      mean_(DType::F32, Shape{T}),
      rstd_(DType::F32, Shape{T}),
      dgain_(DType::F32, Shape{C}),
      dbias_(DType::F32, Shape{C}) {}

void NormBench::forward(const KernelTable& kernels, Stream& stream) const {
  kernels.norm_forward(stream, {.x_TC = matrix(x_),
                                .gain_C = gain_,
                                .bias_C = bias_,
                                .y_TC = matrix(y_),
                                .mean_T = mean_,
                                .rstd_T = rstd_});
}

void NormBench::input_grad(const KernelTable& kernels, Stream& stream) const {
  kernels.norm_backward_input(stream, {.dy_TC = matrix(dy_),
                                       .x_TC = matrix(x_),
                                       .gain_C = gain_,
                                       .mean_T = mean_,
                                       .rstd_T = rstd_,
                                       .dresidual_TC = matrix(y_),
                                       .dx_TC = matrix(dx_)});
}

void NormBench::weight_grad(const KernelTable& kernels, Stream& stream) const {
  kernels.norm_backward_weight(stream, {.dy_TC = matrix(dy_),
                                        .x_TC = matrix(x_),
                                        .mean_T = mean_,
                                        .rstd_T = rstd_,
                                        .dgain_C = dgain_,
                                        .dbias_C = dbias_});
}

}  // namespace trireme
