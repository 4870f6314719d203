#pragma once

#include "base/element.h"
#include "tensor/matrix.h"

namespace trireme {

// Reference kernels read any float dtype as a double and round once when they write.
inline double read(const MatrixRef& x, int64_t row, int64_t col) {
  return read_element(x.data, x.dtype, row * x.stride + col);
}
inline double read(const TensorRef& x, int64_t i) { return read_element(x.data, x.dtype, i); }
inline void write(const MatrixRef& x, int64_t row, int64_t col, double value) {
  write_element(x.data, x.dtype, row * x.stride + col, value);
}
inline void write(const TensorRef& x, int64_t i, double value) {
  write_element(x.data, x.dtype, i, value);
}

}  // namespace trireme
