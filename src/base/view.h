#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "base/check.h"

namespace trireme {

// A borrowed row-major tensor with a compile-time rank: x(t, d). Passed by value, never stored.
template <typename T, int Rank>
class View {
 public:
  View(T* data, std::array<int64_t, Rank> shape) : data_(data), shape_(shape) {}
  // View<float, 2> converts to View<const float, 2>.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  View(View<U, Rank> other) : data_(other.data()), shape_(other.shape()) {}  // NOLINT: implicit

  T* data() const { return data_; }
  const std::array<int64_t, Rank>& shape() const { return shape_; }
  int64_t size(int dim) const { return shape_[dim]; }
  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t extent : shape_) n *= extent;
    return n;
  }

  template <typename... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    const std::array<int64_t, Rank> position{static_cast<int64_t>(index)...};
    int64_t offset = 0;
    for (int dim = 0; dim < Rank; ++dim) {
      TRIREME_DCHECK(position[dim] >= 0 && position[dim] < shape_[dim], "index outside the view");
      offset = offset * shape_[dim] + position[dim];
    }
    return data_[offset];
  }

 private:
  T* data_;
  std::array<int64_t, Rank> shape_;
};

}  // namespace trireme
