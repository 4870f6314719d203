#include "calibrate/measure_update.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr int64_t kMostParams = int64_t{2} << 20;
// Must not fit in a cache: one of 32 MiB keeps a third of 64 MiB, but hardly any of this.
constexpr int64_t kMostBytes = int64_t{256} << 20;
// Gradient, master weight, both moments and the copy, each in lines of its own.
constexpr int64_t kBytesOfParam = 4 * int64_t{sizeof(float)} + 2;
constexpr int64_t kLines = 5 * 64;

int64_t count_of(int64_t params) { return std::clamp<int64_t>(params, 1, kMostParams); }

}  // namespace

UpdateBench::UpdateBench(int64_t params, bool has_copy)
    : shape_{count_of(params)},
      has_copy_(has_copy),
      operands_(std::min(params * kBytesOfParam, kMostBytes),
                count_of(params) * kBytesOfParam + kLines) {}

void UpdateBench::update(const KernelTable& kernels, Stream& stream) {
  AdamWArgs args{.grad_N = operands_.next(DType::F32, shape_),
                 .master_N = operands_.next(DType::F32, shape_),
                 .exp_avg_N = operands_.next(DType::F32, shape_),
                 .exp_avg_sq_N = operands_.next(DType::F32, shape_)};
  if (has_copy_) args.param_N = operands_.next(DType::BF16, shape_);
  kernels.adamw(stream, args);
}

// The gradient is read; the others are read and written, the copy only written.
double UpdateBench::bytes() const {
  constexpr double kFloats = 1.0 + 3.0 * 2.0;
  return double(shape_[0]) * (kFloats * sizeof(float) + (has_copy_ ? 2.0 : 0.0));
}

}  // namespace trireme
