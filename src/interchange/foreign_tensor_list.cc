#include "interchange/foreign_tensor_list.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace trireme {

ForeignTensorList::ForeignTensorList(const ModelSpec& model)
    : d_model_(model.d_model), head_dim_(model.head_dim), experts_(model.experts) {
  for (ParamSpec& param : param_table(model, whole_model(model))) {
    params_.emplace(std::move(param.name), Known{param.shape});
  }
}

Shape ForeignTensorList::stacked(const std::vector<std::string>& params) {
  int64_t rows = 0;
  Shape last;
  for (const std::string& name : params) {
    const auto known = params_.find(name);
    TRIREME_CHECK(known != params_.end(), "the model has no parameter " + name);
    TRIREME_CHECK(!std::exchange(known->second.is_added, true), name + " has two tensors");
    last = known->second.shape;
    rows += last[0];
  }
  return last.rank() == 1 ? Shape{rows} : Shape{rows, last[1]};
}

void ForeignTensorList::add(const std::string& name, std::vector<std::string> params) {
  const Shape shape = stacked(params);
  tensors_.push_back({.name = name, .shape = shape, .params = std::move(params)});
}

void ForeignTensorList::add_filled(const std::string& name, const Shape& shape,
                                   std::vector<std::string> params, float fill) {
  if (has(params.front())) {
    add(name, std::move(params));
  } else {
    tensors_.push_back({.name = name});
  }
  tensors_.back().shape = shape;
  tensors_.back().fill = fill;
}

void ForeignTensorList::add_interleaved(const std::string& name, const std::string& param) {
  add(name, {param});
  tensors_.back().interleaved_head_dim = head_dim_;
}

void ForeignTensorList::add_turned(const std::string& name, std::vector<std::string> params,
                                   int64_t head_dim, int64_t turned) {
  add(name, std::move(params));
  tensors_.back().interleaved_head_dim = head_dim;
  tensors_.back().interleaved_last = turned;
}

void ForeignTensorList::add_by_heads(const std::string& name, std::vector<std::string> params,
                                     int64_t heads) {
  add(name, std::move(params));
  tensors_.back().heads = heads;
}

void ForeignTensorList::add_heads(const std::string& name, const std::string& param, int64_t heads,
                                  bool transposed) {
  add(name, {param});
  ForeignTensor& tensor = tensors_.back();
  const int64_t rows = tensor.shape[0] / heads, cols = tensor.shape[1];
  tensor.heads = heads;
  tensor.transposed_heads = transposed;
  tensor.shape = transposed ? Shape{heads, cols, rows} : Shape{heads, rows, cols};
}

void ForeignTensorList::add_side_by_side(const std::string& name, std::vector<std::string> params) {
  const int64_t count = int64_t(params.size());
  add(name, std::move(params));
  tensors_.back().side_by_side = true;
  Shape& shape = tensors_.back().shape;
  shape = Shape{shape[0] / count, shape[1] * count};
}

void ForeignTensorList::add_copy(const std::string& name, const std::string& param) {
  tensors_.push_back({.name = name, .shape = params_.at(param).shape, .params = {param}});
}

void ForeignTensorList::inner_norm(const std::string& name, const std::string& ours, int64_t cols) {
  add_filled(name + ".weight", Shape{cols}, {ours + ".gain"}, 1.0f);
}

void ForeignTensorList::add_experts(const std::string& name, const std::string& layer,
                                    const std::vector<std::string>& ours) {
  std::vector<std::string> params;
  for (int64_t expert = 0; expert < experts_; ++expert) {
    for (const std::string& matrix : ours) {
      params.push_back(fmt::format("{}mlp.experts.{}.{}", layer, expert, matrix));
    }
  }
  add(name, std::move(params));
  Shape& shape = tensors_.back().shape;
  shape = Shape{experts_, shape[0] / experts_, shape[1]};
}

void ForeignTensorList::linear(const std::string& name, std::vector<std::string> weights,
                               std::vector<std::string> biases) {
  add(name + ".weight", std::move(weights));
  add_filled(name + ".bias", Shape{tensors_.back().shape[0]}, std::move(biases));
}

void ForeignTensorList::transposed_linear(const std::string& name, std::vector<std::string> weights,
                                          std::vector<std::string> biases) {
  linear(name, std::move(weights), std::move(biases));
  ForeignTensor& weight = tensors_[tensors_.size() - 2];
  weight.shape = Shape{weight.shape[1], weight.shape[0]};
  weight.transposed = true;
}

void ForeignTensorList::norm(const std::string& name, const std::string& ours, bool has_bias) {
  add_filled(name + ".weight", Shape{d_model_}, {ours + ".gain"}, 1.0f);
  if (has_bias) add_filled(name + ".bias", Shape{d_model_}, {ours + ".bias"});
}

void ForeignTensorList::final_norm(const std::string& name, bool has_bias, double logit_scale) {
  norm(name, "final_norm", has_bias);
  tensors_.back().scale = float(logit_scale);
}

std::vector<ForeignTensor> ForeignTensorList::take() {
  for (const auto& [name, known] : params_) {
    TRIREME_CHECK(known.is_added, "no tensor of the format holds " + name);
  }
  return std::move(tensors_);
}

}  // namespace trireme
