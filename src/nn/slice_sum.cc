#include "nn/slice_sum.h"

#include "graph/op_tensors.h"

namespace trireme {

SliceSum::SliceSum(int num_slices, const Frame& scratch) : num_slices_(num_slices) {
  for (int level = 0; 1 << level < num_slices; ++level) {
    right_TC_[size_t(level)] = matrix(scratch.at(slice_sum_name(level)));
  }
}

void SliceSum::add(Ctx& ctx, const MatrixRef& x_TC, const MatrixRef& y_TC) {
  ctx.kernels.sum(ctx.stream, {flat(y_TC), flat(x_TC), flat(y_TC)});
}

}  // namespace trireme
