#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "interchange/foreign_tensor.h"

namespace trireme {

// Builds the tensor list of a format from pairs of names: the name of a tensor in the file, and
// those of our parameters in it. Shapes follow from the parameter table of the model.
class ForeignTensorList {
 public:
  explicit ForeignTensorList(const ModelSpec& model);

  bool has(const std::string& param) const { return params_.contains(param); }
  // Adds a tensor that holds these parameters of the model, stacked by rows.
  void add(const std::string& name, std::vector<std::string> params);
  // Adds a tensor with `fill` in elements without a parameter: rows of padding, or all of them if
  // the model lacks the parameters, such as biases.
  void add_filled(const std::string& name, const Shape& shape, std::vector<std::string> params,
                  float fill = 0.0f);
  // Adds the final norm, whose gain the file has without the factor `logit_scale` of all logits.
  void final_norm(const std::string& name, bool has_bias, double logit_scale = 1.0);
  // Adds rows of heads with interleaved halves.
  void add_interleaved(const std::string& name, const std::string& param);
  // Adds rows of which the last `turned` of every `head_dim` are interleaved.
  void add_turned(const std::string& name, std::vector<std::string> params, int64_t head_dim,
                  int64_t turned);
  // Adds parameters whose rows of one head follow each other.
  void add_by_heads(const std::string& name, std::vector<std::string> params, int64_t heads);
  // Adds a parameter as one matrix for each head, transposed or not.
  void add_heads(const std::string& name, const std::string& param, int64_t heads, bool transposed);
  // Adds matrices whose rows stand side by side.
  void add_side_by_side(const std::string& name, std::vector<std::string> params);
  // Adds another copy of a parameter that a tensor of the list holds already.
  void add_copy(const std::string& name, const std::string& param);
  // Adds NAME.weight, the gain of a norm of so many columns.
  void inner_norm(const std::string& name, const std::string& ours, int64_t cols);
  // Adds the matrices of all experts of a layer, stacked; each expert's matrices are in the order
  // of `ours`.
  void add_experts(const std::string& name, const std::string& layer,
                   const std::vector<std::string>& ours);
  // Adds NAME.weight [out, in] and NAME.bias [out].
  void linear(const std::string& name, std::vector<std::string> weights,
              std::vector<std::string> biases);
  // Adds NAME.weight [in, out] and NAME.bias [out].
  void transposed_linear(const std::string& name, std::vector<std::string> weights,
                         std::vector<std::string> biases);
  // Adds NAME.weight and NAME.bias of a norm.
  void norm(const std::string& name, const std::string& ours, bool has_bias);

  // Every parameter of the model must have been added, each once.
  std::vector<ForeignTensor> take();

 private:
  struct Known {
    Shape shape;
    bool is_added = false;
  };
  // The shape of the parameters one above the other; each is marked as added.
  Shape stacked(const std::vector<std::string>& params);

  int64_t d_model_, head_dim_, experts_;
  std::unordered_map<std::string, Known> params_;  // parameters of the model
  std::vector<ForeignTensor> tensors_;
};

}  // namespace trireme
