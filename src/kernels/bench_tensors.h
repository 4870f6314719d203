#pragma once

#include "kernels/bench.h"

namespace trireme {

// Numbers between -1 and 1 that differ, so that no operand is zero or denormal.
inline Tensor varied(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape);
  const TensorRef x = tensor;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const float value = float(i * 37 % 101 - 50) / 64.0f;
    if (dtype == DType::F32) {
      x.as<float>()[i] = value;
    } else {
      x.as<bf16>()[i] = bf16(value);
    }
  }
  return tensor;
}

// A kernel that is measured against the bandwidth of a copy: `bytes` are those that it must read
// and write at least.
template <typename Call>
BenchRow bandwidth_row(const BenchContext& context, std::string family, std::string shape,
                       DType dtype, double bytes, Call&& call) {
  BenchRow row;
  row.family = std::move(family);
  row.shape = std::move(shape);
  row.dtype = dtype;
  row.seconds = median_seconds(call);
  row.bytes = bytes;
  row.share_of_ceiling = bytes / row.seconds / context.ceilings.copy_bytes_per_s;
  return row;
}

inline std::string extents(int64_t rows, int64_t cols) {
  return std::to_string(rows) + "x" + std::to_string(cols);
}

}  // namespace trireme
