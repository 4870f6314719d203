#pragma once

#include "tensor/matrix.h"

namespace trireme {

// Reference kernels read any float dtype as a double and round once when they write.
inline double read_element(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::F32:
      return static_cast<const float*>(data)[i];
    case DType::BF16:
      return float(static_cast<const bf16*>(data)[i]);
    case DType::F16:
      return float(static_cast<const f16*>(data)[i]);
    case DType::F64:
      return static_cast<const double*>(data)[i];
    default:
      TRIREME_CHECK(false, "a reference kernel read " + std::string(name_of(dtype)));
  }
  return 0.0;
}
inline void write_element(void* data, DType dtype, int64_t i, double value) {
  switch (dtype) {
    case DType::F32:
      static_cast<float*>(data)[i] = float(value);
      return;
    case DType::BF16:
      static_cast<bf16*>(data)[i] = bf16(float(value));
      return;
    case DType::F16:
      static_cast<f16*>(data)[i] = f16(float(value));
      return;
    case DType::F64:
      static_cast<double*>(data)[i] = value;
      return;
    default:
      TRIREME_CHECK(false, "a reference kernel wrote " + std::string(name_of(dtype)));
  }
}

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
