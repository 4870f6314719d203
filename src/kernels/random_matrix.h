#pragma once

#include <bit>
#include <cstring>
#include <vector>

#include "base/philox.h"
#include "tensor/matrix.h"

namespace trireme {

// A random matrix for tests. Its rows may be strided, and the memory between and after them is NaN,
// so that a kernel that reads it is noticed. Values are keyed by `site`.
class RandomMatrix {
 public:
  RandomMatrix(DType dtype, int64_t rows, int64_t cols, int64_t gap, uint64_t site,
               float scale = 1.0f)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        bytes_(size_t((rows * stride_ + 1) * size_of(dtype)), std::byte{0xff}) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) {
        const PhiloxCounter words = philox({site}, counter_of(row, col));
        set(row, col, scale * (2.0f * uniform_float(words[0]) - 1.0f));
      }
    }
  }

  MatrixRef ref() { return {bytes_.data(), dtype_, rows_, cols_, stride_}; }
  operator MatrixRef() { return ref(); }  // NOLINT: a borrowed view of itself
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  TensorRef row() { return {bytes_.data(), dtype_, Shape{cols_}}; }

  float get(int64_t row, int64_t col) const {
    const std::byte* p = bytes_.data() + (row * stride_ + col) * size_of(dtype_);
    if (dtype_ == DType::F32) {
      float value;
      std::memcpy(&value, p, sizeof(value));
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return dtype_ == DType::F16 ? float(std::bit_cast<f16>(bits))
                                : float(std::bit_cast<bf16>(bits));
  }
  void set(int64_t row, int64_t col, float value) {
    std::byte* p = bytes_.data() + (row * stride_ + col) * size_of(dtype_);
    if (dtype_ == DType::F32) {
      std::memcpy(p, &value, sizeof(value));
      return;
    }
    const uint16_t bits = dtype_ == DType::F16 ? f16(value).bits : bf16(value).bits;
    std::memcpy(p, &bits, sizeof(bits));
  }
  // Also compares the memory between rows, to notice a kernel that writes there.
  friend bool operator==(const RandomMatrix& a, const RandomMatrix& b) {
    return a.bytes_ == b.bytes_;
  }

 private:
  DType dtype_;
  int64_t rows_, cols_, stride_;
  std::vector<std::byte> bytes_;
};

}  // namespace trireme
