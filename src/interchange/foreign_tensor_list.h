#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "interchange/foreign_tensor.h"

namespace trireme {

// Builds a format's list of tensors. A tensor whose parameters the model lacks, as a model without
// biases does, is a constant that changes nothing.
class ForeignTensorList {
 public:
  explicit ForeignTensorList(const ModelSpec& model);

  void add(const std::string& name, const Shape& shape, std::vector<std::string> params,
           float fill = 0.0f);
  // Rows of heads, their halves interleaved.
  void add_interleaved(const std::string& name, const Shape& shape, const std::string& param);
  // Of all experts of a layer one below the other: every one's matrices in the order of `ours`.
  void add_experts(const std::string& name, const Shape& shape, const std::string& layer,
                   const std::vector<std::string>& ours);
  // NAME.weight [out, in] and NAME.bias [out].
  void linear(const std::string& name, const Shape& shape, std::vector<std::string> weights,
              std::vector<std::string> biases);
  // The same with NAME.weight as [in, out].
  void transposed_linear(const std::string& name, const Shape& shape,
                         std::vector<std::string> weights, std::vector<std::string> biases);
  // NAME.weight and NAME.bias of a norm.
  void norm(const std::string& name, const std::string& ours, bool has_bias);

  std::vector<ForeignTensor> take() { return std::move(tensors_); }

 private:
  int64_t d_model_;
  int64_t head_dim_;
  std::unordered_set<std::string> params_;  // that the model has
  std::vector<ForeignTensor> tensors_;
};

}  // namespace trireme
