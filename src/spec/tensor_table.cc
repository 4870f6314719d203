#include "spec/tensor_table.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

constexpr int64_t kAlignment = 64;

int64_t align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void TensorTable::add(std::string name, Shape shape, DType dtype, bool adjoins_previous) {
  TRIREME_CHECK(!contains(name), "two tensors are named " + name);
  TensorSpec tensor{std::move(name), shape, dtype, adjoins_previous ? end_ : align(end_)};
  end_ = tensor.offset + tensor.bytes();
  tensors_.push_back(std::move(tensor));
}

void TensorTable::append(const std::string& prefix, const TensorTable& other) {
  const int64_t base = bytes();
  for (TensorSpec tensor : other.tensors_) {
    tensor.name = prefix + tensor.name;
    tensor.offset += base;
    tensors_.push_back(std::move(tensor));
  }
  end_ = base + other.end_;
}

const TensorSpec* TensorTable::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const TensorSpec& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

const TensorSpec& TensorTable::at(std::string_view name) const {
  const TensorSpec* tensor = find(name);
  TRIREME_CHECK(tensor != nullptr, "no tensor is named " + std::string(name));
  return *tensor;
}

int64_t TensorTable::bytes() const { return align(end_); }

}  // namespace trireme
