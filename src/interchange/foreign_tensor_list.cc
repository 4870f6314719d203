#include "interchange/foreign_tensor_list.h"

#include <fmt/format.h>

namespace trireme {

ForeignTensorList::ForeignTensorList(const ModelSpec& model)
    : d_model_(model.d_model), head_dim_(model.head_dim) {
  for (ParamSpec& param : param_table(model, whole_model(model))) {
    params_.insert(std::move(param.name));
  }
}

void ForeignTensorList::add(const std::string& name, const Shape& shape,
                            std::vector<std::string> params, float fill) {
  if (!params_.contains(params.front())) params.clear();
  tensors_.push_back({.name = name, .shape = shape, .params = std::move(params), .fill = fill});
}

void ForeignTensorList::add_interleaved(const std::string& name, const Shape& shape,
                                        const std::string& param) {
  add(name, shape, {param});
  tensors_.back().interleaved_head_dim = head_dim_;
}

void ForeignTensorList::add_experts(const std::string& name, const Shape& shape,
                                    const std::string& layer,
                                    const std::vector<std::string>& ours) {
  std::vector<std::string> params;
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    for (const std::string& matrix : ours) {
      params.push_back(fmt::format("{}mlp.experts.{}.{}", layer, expert, matrix));
    }
  }
  add(name, shape, std::move(params));
}

void ForeignTensorList::linear(const std::string& name, const Shape& shape,
                               std::vector<std::string> weights, std::vector<std::string> biases) {
  add(name + ".weight", shape, std::move(weights));
  add(name + ".bias", Shape{shape[0]}, std::move(biases));
}

void ForeignTensorList::transposed_linear(const std::string& name, const Shape& shape,
                                          std::vector<std::string> weights,
                                          std::vector<std::string> biases) {
  add(name + ".weight", shape, std::move(weights));
  tensors_.back().transposed = true;
  add(name + ".bias", Shape{shape[1]}, std::move(biases));
}

void ForeignTensorList::norm(const std::string& name, const std::string& ours, bool has_bias) {
  add(name + ".weight", Shape{d_model_}, {ours + ".gain"}, 1.0f);
  if (has_bias) add(name + ".bias", Shape{d_model_}, {ours + ".bias"});
}

}  // namespace trireme
