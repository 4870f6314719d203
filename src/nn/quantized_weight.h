#pragma once

#include <string>

#include "kernels/matmul/quantized_matmul.h"
#include "nn/frame.h"

namespace trireme {

// Behind the name of a matrix: its whole numbers, and their scales.
inline constexpr const char* kQuantized = ".int8";
inline constexpr const char* kQuantizedScale = ".scale";
// Memory for the largest such product's weight in the compute dtype, for inputs of many rows.
inline constexpr const char* kUnpackedWeight = "unpacked_weight";

// A weight that generation holds in bytes; absent where the model has it in the compute dtype.
struct QuantizedWeight {
  QuantizedMatrix w;
  TensorRef unpacked;

  explicit operator bool() const { return bool(w); }
  MatrixRef unpacked_FC() const {
    const MatrixRef& q_FC = w.q_FC;
    return {unpacked.data, unpacked.dtype, q_FC.rows, q_FC.cols, q_FC.cols};
  }
};

// Rounds the matrix of this name in `params`.
void quantize_weight(const Frame& params, const std::string& name, const Frame& quantized);
// Finds a matrix and those that adjoin it, with all their rows.
QuantizedWeight quantized_weight(const Frame& params, const std::string& first, int64_t rows);

}  // namespace trireme
