#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bench.h"

namespace trireme {

// Returns a tensor of numbers between -1 and 1, of which few are zero and none is denormal. There
// are 101 distinct numbers, which repeat.
inline Tensor varied(DType dtype, Shape shape) {
  constexpr int64_t kDistinct = 101;
  Tensor tensor(dtype, shape);
  const TensorRef x = tensor;
  const int64_t count = x.num_elements(), bytes = size_of(dtype);
  int64_t filled = std::min(count, kDistinct);
  for (int64_t i = 0; i < filled; ++i) {
    const float value = float(i * 37 % kDistinct - 50) / 64.0f;
    if (dtype == DType::F32) {
      x.as<float>()[i] = value;
    } else {
      x.as<bf16>()[i] = bf16(value);
    }
  }
  char* const begin = static_cast<char*>(x.data);
  while (filled < count) {
    const int64_t copied = std::min(filled, count - filled);
    std::memcpy(begin + filled * bytes, begin, size_t(copied * bytes));
    filled += copied;
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
