#include "memory/tensor_table.h"

#include <algorithm>
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

void TensorTable::push(TensorSpec tensor) {
  hashes_.push_back(std::hash<std::string_view>{}(tensor.name));
  tensors_.push_back(std::move(tensor));
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
  const size_t hash = std::hash<std::string_view>{}(name);
  for (auto at = hashes_.begin(); (at = std::find(at, hashes_.end(), hash)) != hashes_.end();
       ++at) {
    const TensorSpec& tensor = tensors_[size_t(at - hashes_.begin())];
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const TensorSpec& TensorTable::at(std::string_view name) const {
  const TensorSpec* tensor = find(name);
  TRIREME_CHECK(tensor != nullptr, "no tensor is named " + std::string(name));
  return *tensor;
}

int64_t TensorTable::bytes() const { return aligned_bytes(end_); }

}  // namespace trireme
