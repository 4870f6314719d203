#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/view.h"
#include "device/buffer.h"

namespace trireme {

// dtype + shape + pointer of borrowed memory. Passed by value and never stored past the call,
// unless the owner outlives the holder (a layer holds refs into its stage's arena). `data` may be
// null for an absent tensor, whose shape has 0 elements.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::F32;
  Shape shape;

  explicit operator bool() const { return data != nullptr; }
  int64_t num_elements() const { return shape.num_elements(); }
  int64_t bytes() const { return shape.num_elements() * size_of(dtype); }

  template <typename T>
  T* as() const {
    TRIREME_DCHECK(dtype == dtype_of<T>, "tensor read as another dtype");
    return static_cast<T*>(data);
  }
  template <typename T, int Rank>
  View<T, Rank> view() const {
    TRIREME_CHECK(shape.rank() == Rank, "tensor " + shape.to_string() + " viewed at another rank");
    std::array<int64_t, Rank> extents;
    for (int dim = 0; dim < Rank; ++dim) extents[dim] = shape[dim];
    return View<T, Rank>(as<std::remove_const_t<T>>(), extents);
  }
};

// Owns its memory on one device. Move-only.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);  // zero-filled, on the CPU
  TensorRef ref() const { return {buffer_.data(), dtype_, shape_}; }
  operator TensorRef() const { return ref(); }  // NOLINT: converts to a borrowed view

 private:
  Buffer buffer_;
  DType dtype_ = DType::F32;
  Shape shape_;
};

}  // namespace trireme
