#include "spec/param_table.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace trireme {
namespace {

// Adds the parameters of one module under a common prefix.
class ParamList {
 public:
  explicit ParamList(const ModelSpec& model) : model_(model) {}

  void matrix(const std::string& name, int64_t rows, int64_t cols, double stddev,
              bool adjoins = false) {
    params_.push_back({name, Shape{rows, cols}, ParamInit::Normal, stddev, true, adjoins});
  }
  // Moved by load, not by gradient.
  void balance(const std::string& name, int64_t size) {
    if (model_.balance_rate == 0.0) return;
    params_.push_back({name, Shape{size}, ParamInit::Zero, 0.0, false, false, model_.balance_rate});
  }
  void bias(const std::string& name, int64_t size, bool adjoins = false) {
    if (!model_.bias) return;
    params_.push_back({name, Shape{size}, ParamInit::Zero, 0.0, false, adjoins});
  }
  void norm(const std::string& name) {
    if (!model_.norm_gain) return;
    params_.push_back({name + ".gain", Shape{model_.d_model}, ParamInit::One, 0.0, false, false});
    if (model_.norm == NormType::LayerNorm) bias(name + ".bias", model_.d_model);
  }
  std::vector<ParamSpec> take() { return std::move(params_); }

 private:
  const ModelSpec& model_;
  std::vector<ParamSpec> params_;
};

// Gate and up projection lie together: one matmul reads both.
void add_swiglu(ParamList& list, const ModelSpec& model, const std::string& prefix, int64_t width,
                double residual_stddev) {
  list.matrix(prefix + "w_gate", width, model.d_model, model.init_stddev);
  list.matrix(prefix + "w_up", width, model.d_model, model.init_stddev, true);
  list.matrix(prefix + "w_down", model.d_model, width, residual_stddev);
}

void add_experts(ParamList& list, const ModelSpec& model, const std::string& prefix,
                 double residual_stddev) {
  list.matrix(prefix + "router", model.experts, model.d_model, model.init_stddev);
  list.balance(prefix + "router_bias", model.experts);
  if (model.shared_experts > 0) {
    add_swiglu(list, model, prefix + "shared.", model.shared_width(), residual_stddev);
  }
  for (int64_t i = 0; i < model.held_experts; ++i) {
    add_swiglu(list, model, fmt::format("{}experts.{}.", prefix, model.first_expert + i),
               model.d_ff, residual_stddev);
  }
}

void add_layer(ParamList& list, const ModelSpec& model, int64_t layer_index) {
  const std::string layer = fmt::format("layers.{}.", layer_index);
  const double stddev = model.init_stddev;
  const double residual_stddev =
      model.init_scale_residual ? stddev / std::sqrt(2.0 * double(model.layers)) : stddev;
  list.norm(layer + "norm1");
  list.matrix(layer + "attn.wq", model.q_width(), model.d_model, stddev);
  list.matrix(layer + "attn.wk", model.kv_width(), model.d_model, stddev, true);
  list.matrix(layer + "attn.wv", model.kv_width(), model.d_model, stddev, true);
  list.bias(layer + "attn.bq", model.q_width());
  list.bias(layer + "attn.bk", model.kv_width(), true);
  list.bias(layer + "attn.bv", model.kv_width(), true);
  list.matrix(layer + "attn.wo", model.d_model, model.q_width(), residual_stddev);
  list.bias(layer + "attn.bo", model.d_model);
  list.norm(layer + "norm2");
  if (model.has_experts()) return add_experts(list, model, layer + "mlp.", residual_stddev);
  if (model.mlp == MlpType::Swiglu) {
    list.matrix(layer + "mlp.w_gate", model.d_ff, model.d_model, stddev);
    list.matrix(layer + "mlp.w_up", model.d_ff, model.d_model, stddev, true);
    list.bias(layer + "mlp.b_gate", model.d_ff);
    list.bias(layer + "mlp.b_up", model.d_ff, true);
  } else {
    list.matrix(layer + "mlp.w_up", model.d_ff, model.d_model, stddev);
    list.bias(layer + "mlp.b_up", model.d_ff);
  }
  list.matrix(layer + "mlp.w_down", model.d_model, model.d_ff, residual_stddev);
  list.bias(layer + "mlp.b_down", model.d_model);
}

}  // namespace

std::vector<ParamSpec> param_table(const ModelSpec& model, const StageSpec& stage) {
  ParamList list(model);
  if (stage.has_embedding) {
    list.matrix("embedding.tokens", model.vocab_size, model.d_model, model.init_stddev);
    if (!model.rope) {
      list.matrix("embedding.positions", model.seq_len, model.d_model, model.init_stddev);
    }
    if (model.embedding_norm) list.norm("embedding.norm");
  }
  for (int64_t i = 0; i < stage.num_layers; ++i) add_layer(list, model, stage.first_layer + i);
  if (stage.has_head) {
    if (model.final_norm) list.norm("final_norm");
    if (!model.tied_head) {
      list.matrix("head.weight", model.vocab_size, model.d_model, model.init_stddev);
    } else if (!stage.has_embedding) {
      list.matrix("embedding.tokens", model.vocab_size, model.d_model, model.init_stddev);
    }
  }
  return list.take();
}

int64_t num_params(const ModelSpec& model) {
  int64_t total = 0;
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    total += param.shape.num_elements();
  }
  return total;
}

int64_t num_active_params(const ModelSpec& model) {
  const int64_t idle = model.has_experts() ? model.experts - model.top_k : 0;
  return num_params(model) - model.layers * idle * 3 * model.d_ff * model.d_model;
}

}  // namespace trireme
