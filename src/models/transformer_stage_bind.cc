// Where a stage finds its tensors in the planned memory, looked up once.
#include <fmt/format.h>

#include "models/transformer_stage.h"

namespace trireme {
namespace {

std::string layer_prefix(int64_t layer_index) { return fmt::format("layers.{}.", layer_index); }

MatrixRef find_matrix(const Frame& frame, const std::string& name) {
  const TensorRef tensor = frame.find(name);
  return tensor ? matrix(tensor) : MatrixRef{};
}

RopeTable bind_rope(const Frame& scratch) {
  return {scratch.find("rope.cos_SD"), scratch.find("rope.sin_SD")};
}

std::string head_weight_name(const ModelSpec& model) {
  return model.tied_head ? "embedding.tokens" : "head.weight";
}

}  // namespace

TransformerStage::TransformerStage(const ModelSpec& model, const StageSpec& stage,
                                   const StageShape& shape, const StageTables& tables,
                                   const StageMemory& memory, uint64_t seed)
    : model_(shard_model(model, shape)), stage_(stage), shape_(shape), tables_(tables) {
  const auto params = [&](int unit) {
    return Frame(tables_.params, memory.unit_params[size_t(unit)]);
  };
  const Frame scratch(tables_.scratch, memory.scratch);
  const RopeTable rope = bind_rope(scratch);
  if (rope.cos_SD) fill_rope_table(model_, rope);

  const SumScratch sums{find_matrix(scratch, "edge.sum_RC"), {model_.slices, scratch}};
  if (stage.has_embedding) embedding_ = EmbeddingBlock::bind(model_, params(0), seed);
  for (int64_t i = 0; i < stage.num_layers; ++i) {
    const std::string layer = layer_prefix(stage.first_layer + i);
    const Frame unit_params = params(unit_of_layer(i));
    layers_.push_back({AttentionBlock::bind(model_, unit_params, layer, rope, seed, sums),
                       FeedForward::bind(model_, unit_params, layer, seed, sums)});
    AttentionBlock& attention = layers_.back().attention;
    const AttentionShape local = attention.shape_of({shape.micro_sequences});
    if (scratch.contains("ring.sum_TQ")) attention.ring.emplace(local, model_.chunks, scratch);
    if (scratch.contains("heads.send_TX")) {
      attention.all_to_all.emplace(local, model_.chunks, scratch);
    }
  }
  if (stage.has_head) {
    // A tied table belongs to the embedding where the stage has one.
    const bool is_tied_here = model.tied_head && stage.has_embedding;
    const MatrixRef weight_VC =
        matrix(params(is_tied_here ? 0 : head_unit()).at(head_weight_name(model)));
    head_ = HeadBlock::bind(model_, params(head_unit()), weight_VC, sums.over_slices);
  }
  full_TC_ = find_matrix(scratch, "full_TC");
  embedding_scratch_TC_ = find_matrix(scratch, "embedding.de_TC");
  embedding_adds_ = stage.has_embedding && stage.has_head && model.tied_head &&
                    !tables_.grads.contains("embedding.tokens@head");

  for (void* slot : memory.saved_slots) bind_saved(Frame(tables_.saved, slot), scratch);
  if (memory.weight_grad_slots.empty()) bind_layer_grads(scratch, scratch);
  for (void* slot : memory.weight_grad_slots) {
    bind_layer_grads(Frame(tables_.weight_grad, slot), scratch);
  }
  for (const std::vector<void*>& slot : memory.grad_slots) bind_param_grads(slot);
}

TransformerStage::LayerSaved TransformerStage::bind_layer_saved(int64_t layer, const Frame& saved,
                                                                const Frame& scratch) const {
  // A tensor is kept per layer, or lives in the scratch that all layers share and is recomputed.
  const std::string prefix = layer_prefix(stage_.first_layer + layer);
  const auto tensor = [&](const std::string& name) {
    return saved.contains(prefix + name) ? saved.at(prefix + name) : scratch.find(name);
  };
  const bool is_last = layer + 1 == stage_.num_layers;
  LayerSaved s;
  s.attention.x_TC = matrix(tensor("x_TC"));
  s.attention.h_TC = matrix(tensor("h1_TC"));
  s.attention.norm = {tensor("norm1.mean_T"), tensor("norm1.rstd_T")};
  s.attention.qkv_TD = matrix(tensor("qkv_TD"));
  s.attention.o_TQ = matrix(tensor("o_TQ"));
  s.attention.lse_HT = tensor("lse_HT");
  s.attention.x1_TC = matrix(tensor("x1_TC"));
  s.attention.h_full_TC = full_or(s.attention.h_TC);
  s.attention.partial_TC = full_or(s.attention.x1_TC);
  MlpBlock::Saved& mlp = s.ffn.mlp;
  mlp.x1_TC = s.attention.x1_TC;
  mlp.h_TC = matrix(tensor("h2_TC"));
  mlp.norm = {tensor("norm2.mean_T"), tensor("norm2.rstd_T")};
  mlp.y_TC = matrix(saved.at(is_last ? std::string("y_TC")
                                     : layer_prefix(stage_.first_layer + layer + 1) + "x_TC"));
  mlp.h_full_TC = full_or(mlp.h_TC);
  mlp.partial_TC = full_or(mlp.y_TC);
  const std::string own = model_.has_experts() ? "shared." : "";
  const TensorRef u_TU = tensor(own + "u_TU");
  if (u_TU) {
    mlp.u_TU = matrix(u_TU);
    mlp.a_TF = matrix(tensor(own + "a_TF"));
  }
  if (!model_.has_experts()) return s;
  s.ffn.bind(tensor);
  return s;
}

void TransformerStage::bind_saved(const Frame& saved, const Frame& scratch) {
  Saved s;
  for (int64_t i = 0; i < stage_.num_layers; ++i) {
    s.layers.push_back(bind_layer_saved(i, saved, scratch));
  }
  if (stage_.has_embedding) {
    s.embedding.tokens_T = saved.at("tokens_T");
    s.embedding.x_TC = s.layers.front().attention.x_TC;
    s.embedding.e_TC =
        model_.embedding_norm ? matrix(saved.at("embedding.x_TC")) : s.embedding.x_TC;
    s.embedding.e_full_TC = full_or(s.embedding.e_TC);
    s.embedding.norm = {saved.find("embedding.mean_T"), saved.find("embedding.rstd_T")};
  }
  if (stage_.has_head) {
    s.head.y_TC = matrix(saved.at("y_TC"));
    s.head.h_TC = model_.final_norm ? matrix(saved.at("head.h_TC")) : s.head.y_TC;
    s.head.norm = {saved.find("head.mean_T"), saved.find("head.rstd_T")};
    s.head.targets_T = saved.at("targets_T");
    s.head.loss_T = saved.at("loss_T");
    s.head.max_T = saved.at("head.max_T");
    s.head.sum_T = saved.at("head.sum_T");
    s.head.h_full_TC = full_or(s.head.h_TC);
    s.head.dh_TC = matrix(saved.at("head.dh_TC"));
    s.head.dh_full_TC = full_TC_ ? matrix(scratch.at("head.dh_full_TC")) : s.head.dh_TC;
    s.head.dlogits_TV = find_matrix(saved, "head.dlogits_TV");
    s.head.logits_tile_tV = matrix(scratch.at("head.logits_tile_tV"));
    s.head.part_3t = scratch.at("head.part_3t");
    s.head.parts_3Rt = scratch.at("head.parts_3Rt");
  }
  saved_.push_back(std::move(s));
}

void TransformerStage::bind_ffn_grads(const Frame& weight_grad, const Frame& scratch,
                                      const std::string& prefix, FeedForward::Grads& g) const {
  const std::string own = model_.has_experts() ? "shared." : "";
  if (weight_grad.contains(prefix + own + "du_TU")) {
    g.mlp.du_TU = matrix(weight_grad.at(prefix + own + "du_TU"));
    g.mlp.da_TF = matrix(scratch.at(own + "da_TF"));
  }
  if (!model_.has_experts()) return;
  g.bind([&](const std::string& name) {
    return weight_grad.contains(prefix + name) ? weight_grad.at(prefix + name) : scratch.find(name);
  });
}

void TransformerStage::bind_layer_grads(const Frame& weight_grad, const Frame& scratch) {
  const bool split = shape_.split_backward;
  std::vector<LayerGrads> layers(stage_.num_layers);
  const MatrixRef input_grad_TC = matrix(weight_grad.at("dx_TC"));
  for (int64_t i = 0; i < stage_.num_layers; ++i) {
    const std::string prefix = split ? layer_prefix(stage_.first_layer + i) : "";
    const auto tensor = [&](const char* name) { return matrix(weight_grad.at(prefix + name)); };
    LayerGrads& g = layers[i];
    MlpBlock::Grads& mlp = g.ffn.mlp;
    mlp.dy_TC = split ? tensor("dy_TC") : input_grad_TC;
    mlp.dp_TC = model_.dropout > 0.0 ? tensor("dp2_TC") : mlp.dy_TC;
    mlp.dp_full_TC = full_TC_ ? tensor("dp2_full_TC") : mlp.dp_TC;
    mlp.dh_TC = tensor("dh2_TC");
    mlp.dh_full_TC = full_or(mlp.dh_TC);
    mlp.dx1_TC = tensor("dx1_TC");
    bind_ffn_grads(weight_grad, scratch, prefix, g.ffn);
    g.attention.dx1_TC = mlp.dx1_TC;
    g.attention.dp_TC = model_.dropout > 0.0 ? tensor("dp1_TC") : g.attention.dx1_TC;
    g.attention.dp_full_TC = full_TC_ ? tensor("dp1_full_TC") : g.attention.dp_TC;
    g.attention.do_TQ = matrix(scratch.at("do_TQ"));
    g.attention.dqkv_TD = tensor("dqkv_TD");
    g.attention.dh_TC = tensor("dh1_TC");
    g.attention.dh_full_TC = full_or(g.attention.dh_TC);
    g.attention.delta_HT = scratch.at("delta_HT");
    // A layer's outgoing gradient is the incoming one of the layer below.
    g.attention.dx_TC = i == 0 ? input_grad_TC : layers[i - 1].ffn.mlp.dy_TC;
  }
  grads_.push_back(std::move(layers));
  input_grad_.push_back(input_grad_TC);
}

void TransformerStage::bind_param_grads(const std::vector<void*>& unit_grads) {
  const auto grads = [&](int unit) { return Frame(tables_.grads, unit_grads[size_t(unit)]); };
  ParamGrads g;
  if (stage_.has_embedding) g.embedding = EmbeddingBlock::Params::bind(grads(0));
  for (int64_t i = 0; i < stage_.num_layers; ++i) {
    const std::string layer = layer_prefix(stage_.first_layer + i);
    const Frame of_unit = grads(unit_of_layer(i));
    g.layers.push_back({AttentionBlock::Params::bind(model_, of_unit, layer),
                        FeedForward::bind_params(model_, of_unit, layer)});
  }
  if (stage_.has_head) {
    const Frame of_head = grads(head_unit());
    const bool apart = of_head.contains("embedding.tokens@head");
    const bool is_tied_here = model_.tied_head && stage_.has_embedding && !apart;
    const std::string weight = apart ? "embedding.tokens@head" : head_weight_name(model_);
    g.head =
        HeadBlock::Params::bind(of_head, matrix((is_tied_here ? grads(0) : of_head).at(weight)));
  }
  param_grads_.push_back(std::move(g));
}

}  // namespace trireme
