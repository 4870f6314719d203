#pragma once

#include "tensor/tensor.h"

namespace trireme {

// A borrowed row-major matrix. Its rows may be strided.
struct MatrixRef {
  void* data = nullptr;
  DType dtype = DType::F32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next, >= cols

  explicit operator bool() const { return data != nullptr; }
  template <typename T>
  T* row(int64_t r) const {
    TRIREME_DCHECK(dtype == dtype_of<T>, "matrix read as another dtype");
    return static_cast<T*>(data) + r * stride;
  }
};

// Views a tensor of any rank as a matrix: all dims except the last are rows.
inline MatrixRef matrix(const TensorRef& x) {
  const int64_t cols = x.shape[x.shape.rank() - 1];
  return {x.data, x.dtype, cols == 0 ? 0 : x.num_elements() / cols, cols, cols};
}
// Views the elements as one row. The rows must be contiguous.
inline TensorRef flat(const MatrixRef& x) {
  TRIREME_CHECK(x.stride == x.cols || x.rows <= 1, "a flattened matrix has no gaps");
  return {x.data, x.dtype, Shape{x.rows * x.cols}};
}
inline MatrixRef rows_of(const MatrixRef& x, int64_t begin, int64_t count) {
  return {static_cast<char*>(x.data) + begin * x.stride * size_of(x.dtype), x.dtype, count, x.cols,
          x.stride};
}
inline MatrixRef cols_of(const MatrixRef& x, int64_t begin, int64_t count) {
  return {static_cast<char*>(x.data) + begin * size_of(x.dtype), x.dtype, x.rows, count, x.stride};
}

}  // namespace trireme
