#pragma once

#include "kernels/bench.h"

namespace trireme {

// Distinct numbers between -1 and 1, so that no operand is zero or denormal.
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

// The bytes that a kernel must at least read and write.
struct MovedBytes {
  double bytes = 0.0;
  std::string formula;  // such as "read x, write y"
};

// Measures a kernel that is limited by memory.
template <typename Call>
void add_bandwidth_row(std::vector<BenchRow>& rows, const BenchContext& context, std::string family,
                       std::string shape, DType dtype, MovedBytes moved, Call&& call) {
  if (!context.wants(family, shape, dtype)) return;
  BenchRow row;
  row.family = std::move(family);
  row.shape = std::move(shape);
  row.dtype = dtype;
  row.seconds = median_seconds(call);
  row.bytes = moved.bytes;
  row.formula = std::move(moved.formula);
  rows.push_back(std::move(row));
}

inline std::string extents(int64_t rows, int64_t cols) {
  return std::to_string(rows) + "x" + std::to_string(cols);
}

}  // namespace trireme
