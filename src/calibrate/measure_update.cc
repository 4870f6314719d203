#include "calibrate/measure_update.h"

#include <algorithm>

namespace trireme {
UpdateBench::UpdateBench(int64_t params, bool has_copy, ColdOperands& cold)
    : shape_{std::clamp<int64_t>(params, 1, kMostParams)}, has_copy_(has_copy), cold_(cold) {}

void UpdateBench::update(const KernelTable& kernels, Stream& stream) {
  AdamWArgs args{.grad_N = cold_.next(DType::F32, shape_),
                 .master_N = cold_.next(DType::F32, shape_),
                 .exp_avg_N = cold_.next(DType::F32, shape_),
                 .exp_avg_sq_N = cold_.next(DType::F32, shape_)};
  if (has_copy_) args.param_N = cold_.next(DType::BF16, shape_);
  kernels.adamw(stream, args);
}

// The gradient is read; the others are read and written, the copy only written.
double UpdateBench::bytes() const {
  constexpr double kFloats = 1.0 + 3.0 * 2.0;
  return double(shape_[0]) * (kFloats * sizeof(float) + (has_copy_ ? 2.0 : 0.0));
}

}  // namespace trireme
