#include "base/shape.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  TRIREME_CHECK(extents.size() <= extents_.size(), "a tensor has at most four dims");
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (int dim = 0; dim < rank_; ++dim) n *= extents_[dim];
  return n;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int dim = 0; dim < rank_; ++dim) {
    text += (dim > 0 ? ", " : "") + std::to_string(extents_[dim]);
  }
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.extents().begin(), a.extents().end(), b.extents().begin(), b.extents().end());
}

}  // namespace trireme
