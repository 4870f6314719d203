#pragma once

#include <string>
#include <utility>

#include "memory/tensor_table.h"
#include "tensor/matrix.h"

namespace trireme {

// A tensor table at a place in memory. Layers are bound to frames once, before step 1; the frame's
// memory must outlive them.
class Frame {
 public:
  Frame() = default;
  Frame(const TensorTable& table, void* base) : table_(&table), base_(static_cast<char*>(base)) {}

  bool contains(const std::string& name) const {
    return table_ != nullptr && table_->contains(name);
  }
  TensorRef at(const std::string& name) const {
    TRIREME_CHECK(table_ != nullptr, "tensor " + name + " asked of an empty frame");
    const TensorSpec& tensor = table_->at(name);
    return {base_ + tensor.offset, tensor.dtype, tensor.shape};
  }
  // Absent tensors (a bias that the model does not have) give an empty ref.
  TensorRef find(const std::string& name) const { return contains(name) ? at(name) : TensorRef{}; }

  // Adjoining matrices as one with all their rows; adjoining vectors as one.
  MatrixRef stacked_rows(const std::string& first, int64_t rows) const {
    MatrixRef matrix_ref = matrix(at(first));
    matrix_ref.rows = rows;
    return matrix_ref;
  }
  TensorRef stacked(const std::string& first, int64_t size) const {
    TensorRef vector = find(first);
    if (vector) vector.shape = Shape{size};
    return vector;
  }

 private:
  const TensorTable* table_ = nullptr;
  char* base_ = nullptr;
};

}  // namespace trireme
