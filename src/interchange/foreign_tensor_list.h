#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "interchange/foreign_tensor.h"

namespace trireme {

// Builds the tensor list of a format. If the model lacks the parameters of a tensor, such as
// biases, the tensor is a constant that changes nothing.
class ForeignTensorList {
 public:
  explicit ForeignTensorList(const ModelSpec& model);

  void add(const std::string& name, const Shape& shape, std::vector<std::string> params,
           float fill = 0.0f);
  // Adds rows of heads with interleaved halves.
  void add_interleaved(const std::string& name, const Shape& shape, const std::string& param);
  // Adds the matrices of all experts of a layer, stacked; each expert's matrices are in the order
  // of `ours`.
  void add_experts(const std::string& name, const Shape& shape, const std::string& layer,
                   const std::vector<std::string>& ours);
  // Adds NAME.weight [out, in] and NAME.bias [out].
  void linear(const std::string& name, const Shape& shape, std::vector<std::string> weights,
              std::vector<std::string> biases);
  // Adds NAME.weight [in, out] and NAME.bias [out].
  void transposed_linear(const std::string& name, const Shape& shape,
                         std::vector<std::string> weights, std::vector<std::string> biases);
  // Adds NAME.weight and NAME.bias of a norm.
  void norm(const std::string& name, const std::string& ours, bool has_bias);

  std::vector<ForeignTensor> take() { return std::move(tensors_); }

 private:
  int64_t d_model_;
  int64_t head_dim_;
  std::unordered_set<std::string> params_;  // parameters of the model
  std::vector<ForeignTensor> tensors_;
};

}  // namespace trireme
