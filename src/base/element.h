#pragma once

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/dtype.h"

namespace trireme {

// Element i of an array of any dtype that kernels compute in or collectives sum, as a double.
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
    case DType::I32:
      return static_cast<const int32_t*>(data)[i];
    case DType::I64:
      return double(static_cast<const int64_t*>(data)[i]);
    default:
      TRIREME_CHECK(false, "an element was read as " + std::string(name_of(dtype)));
  }
  return 0.0;
}

// Rounds once.
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
    case DType::I32:
      static_cast<int32_t*>(data)[i] = int32_t(value);
      return;
    case DType::I64:
      static_cast<int64_t*>(data)[i] = int64_t(value);
      return;
    default:
      TRIREME_CHECK(false, "an element was written as " + std::string(name_of(dtype)));
  }
}

}  // namespace trireme
