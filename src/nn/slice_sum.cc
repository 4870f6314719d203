#include "nn/slice_sum.h"

#include "spec/stage_tables.h"

namespace trireme {

SliceSum::SliceSum(const LayerSlices& slices, const Frame& scratch) : slices_(slices) {
  for (int level = 0; 1 << level < slices.count; ++level) {
    right_TC_[size_t(level)] = matrix(scratch.at(slice_sum_name(level)));
  }
}

void SliceSum::add(Ctx& ctx, const MatrixRef& x_TC, const MatrixRef& y_TC) {
  const Shape flat{y_TC.rows * y_TC.cols};
  const TensorRef y_N{y_TC.data, y_TC.dtype, flat};
  ctx.kernels.sum(ctx.stream, {y_N, {x_TC.data, x_TC.dtype, flat}, y_N});
}

}  // namespace trireme
