#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace trireme {

// One tensor of a planned piece of memory.
struct TensorSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::F32;
  int64_t offset = 0;  // bytes from the piece's start
  int64_t bytes() const { return shape.num_elements() * size_of(dtype); }
};

// A list of tensors that lie one behind the other, each on a 64-byte border. The allocator turns it
// into memory and the planner sums it: one table, two readers.
class TensorTable {
 public:
  // A tensor that adjoins the one before starts right at its end.
  void add(std::string name, Shape shape, DType dtype, bool adjoins_previous = false);
  // Every tensor of `other`, its name behind `prefix`.
  void append(const std::string& prefix, const TensorTable& other);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const TensorSpec& at(std::string_view name) const;
  int64_t bytes() const;  // with alignment

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  const TensorSpec* find(std::string_view name) const;
  // Returns the slot of the tensor with this name, or the free slot that it would get.
  size_t slot_of(std::string_view name) const;
  void push(TensorSpec tensor);
  std::vector<TensorSpec> tensors_;
  // A hash table of indices into tensors_, at most half full. Adding a name searches for it first,
  // and the largest models have ten thousand tensors.
  std::vector<uint32_t> slots_;
  int64_t end_ = 0;
};

}  // namespace trireme
