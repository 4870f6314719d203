#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace trireme {

// Extents of a row-major tensor with up to four dims. A value type without heap memory.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int dim) const { return extents_[dim]; }
  int64_t num_elements() const;
  std::span<const int64_t> extents() const { return {extents_.data(), size_t(rank_)}; }
  std::string to_string() const;  // such as "[4, 768]"
  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, 4> extents_{};
  int rank_ = 0;
};

}  // namespace trireme
