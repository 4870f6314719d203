#include "memory/tensor_table.h"

#include <bit>
#include <functional>

#include "base/align.h"
#include "base/check.h"

namespace trireme {

void TensorTable::add(std::string name, Shape shape, DType dtype, bool adjoins_previous) {
  TRIREME_CHECK(!contains(name), "two tensors are named " + name);
  TensorSpec tensor{std::move(name), shape, dtype, adjoins_previous ? end_ : aligned_bytes(end_)};
  end_ = tensor.offset + tensor.bytes();
  push(std::move(tensor));
}

size_t TensorTable::slot_of(std::string_view name) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(name)&mask;
  while (slots_[slot] != kEmpty && tensors_[slots_[slot]].name != name) slot = (slot + 1) & mask;
  return slot;
}

// If two tensors have one name, the first one is found.
void TensorTable::push(TensorSpec tensor) {
  tensors_.push_back(std::move(tensor));
  const bool is_full = 2 * tensors_.size() > slots_.size();
  if (is_full) slots_.assign(std::bit_ceil(4 * tensors_.size()), kEmpty);
  for (size_t i = is_full ? 0 : tensors_.size() - 1; i < tensors_.size(); ++i) {
    uint32_t& slot = slots_[slot_of(tensors_[i].name)];
    if (slot == kEmpty) slot = uint32_t(i);
  }
}

void TensorTable::append(const std::string& prefix, const TensorTable& other) {
  const int64_t base = bytes();
  for (TensorSpec tensor : other.tensors_) {
    tensor.name = prefix + tensor.name;
    tensor.offset += base;
    push(std::move(tensor));
  }
  end_ = base + other.end_;
}

const TensorSpec* TensorTable::find(std::string_view name) const {
  if (slots_.empty()) return nullptr;
  const uint32_t index = slots_[slot_of(name)];
  return index == kEmpty ? nullptr : &tensors_[index];
}

const TensorSpec& TensorTable::at(std::string_view name) const {
  const TensorSpec* tensor = find(name);
  TRIREME_CHECK(tensor != nullptr, "no tensor is named " + std::string(name));
  return *tensor;
}

int64_t TensorTable::bytes() const { return aligned_bytes(end_); }

}  // namespace trireme
