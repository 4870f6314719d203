#include "models/transformer_stage.h"

namespace trireme {

void TransformerStage::forward_unit(Ctx& ctx, const MicrobatchInfo& info, int saved_slot,
                                    int unit) const {
  const Saved& s = saved_[saved_slot];
  if (unit == embedding_unit()) {
    embedding_.forward(ctx, info, s.embedding);
  } else if (unit == head_unit()) {
    head_.forward(ctx, info, s.head);
  } else {
    const int i = layer_of(unit);
    layers_[i].attention.forward(ctx, info, s.layers[i].attention);
    layers_[i].ffn.forward(ctx, info, s.layers[i].ffn);
  }
}

void TransformerStage::recompute_unit(Ctx& ctx, const MicrobatchInfo& info, int saved_slot,
                                      int unit) const {
  const Layer& layer = layers_[layer_of(unit)];
  const LayerSaved& s = saved_[saved_slot].layers[layer_of(unit)];
  switch (shape_.recompute) {
    case Recompute::None:
      return;
    case Recompute::Selective:
      layer.attention.recompute_norm(ctx, s.attention);
      layer.ffn.recompute_norm_and_activation(ctx, s.ffn);
      return;
    case Recompute::Full:
      layer.attention.forward(ctx, info, s.attention);
      layer.ffn.recompute_all(ctx, s.ffn);
      return;
  }
}

void TransformerStage::backward_unit(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots,
                                     int unit) const {
  if (!is_layer(unit)) {
    backward_input_unit(ctx, info, slots, unit);
    backward_weight_unit(ctx, info, slots, unit);
    return;
  }
  // Each half's weights follow its inputs at once: the attention's outgoing gradient overwrites
  // the MLP's incoming one.
  const int i = layer_of(unit);
  const Layer& layer = layers_[i];
  const LayerSaved& s = saved_[slots.saved].layers[i];
  const LayerGrads& g = grads_[slots.weight_grad][i];
  const LayerParams& d = param_grads_[slots.grad].layers[i];
  recompute_unit(ctx, info, slots.saved, unit);
  layer.ffn.backward_input(ctx, info, s.ffn, g.ffn);
  layer.ffn.backward_weight(ctx, s.ffn, g.ffn, d.ffn, slots.write);
  layer.attention.backward_input(ctx, info, s.attention, g.attention);
  layer.attention.backward_weight(ctx, s.attention, g.attention, d.attention, slots.write);
}

void TransformerStage::backward_input_unit(Ctx& ctx, const MicrobatchInfo& info,
                                           const StageSlots& slots, int unit) const {
  const Saved& s = saved_[slots.saved];
  const std::vector<LayerGrads>& g = grads_[slots.weight_grad];
  if (unit == head_unit()) {
    head_.backward_input(ctx, s.head, g.back().ffn.mlp.dy_TC);
  } else if (is_layer(unit)) {
    const int i = layer_of(unit);
    recompute_unit(ctx, info, slots.saved, unit);
    layers_[i].ffn.backward_input(ctx, info, s.layers[i].ffn, g[i].ffn);
    layers_[i].attention.backward_input(ctx, info, s.layers[i].attention, g[i].attention);
  }
}

void TransformerStage::backward_weight_unit(Ctx& ctx, const MicrobatchInfo& info,
                                            const StageSlots& slots, int unit) const {
  const Saved& s = saved_[slots.saved];
  const ParamGrads& d = param_grads_[slots.grad];
  if (unit == head_unit()) {
    head_.backward_weight(ctx, s.head, d.head, slots.write);
  } else if (unit == embedding_unit()) {
    embedding_.backward_weight(
        ctx, info, s.embedding, {input_grad_[slots.weight_grad], embedding_scratch_TC_, full_TC_},
        d.embedding, slots.write, embedding_adds_ ? Write::Accumulate : slots.write);
  } else {
    const int i = layer_of(unit);
    const LayerGrads& g = grads_[slots.weight_grad][i];
    recompute_unit(ctx, info, slots.saved, unit);
    layers_[i].ffn.backward_weight(ctx, s.layers[i].ffn, g.ffn, d.layers[i].ffn, slots.write);
    layers_[i].attention.backward_weight(ctx, s.layers[i].attention, g.attention,
                                         d.layers[i].attention, slots.write);
  }
}

MatrixRef TransformerStage::input_TC(int saved_slot) const {
  return saved_[saved_slot].layers.front().attention.x_TC;
}
MatrixRef TransformerStage::output_TC(int saved_slot) const {
  return saved_[saved_slot].layers.back().ffn.mlp.y_TC;
}
MatrixRef TransformerStage::input_grad_TC(int weight_grad_slot) const {
  return input_grad_[weight_grad_slot];
}
MatrixRef TransformerStage::output_grad_TC(int weight_grad_slot) const {
  return grads_[weight_grad_slot].back().ffn.mlp.dy_TC;
}

std::span<const int32_t> TransformerStage::expert_load(int saved_slot, int unit) const {
  if (!is_layer(unit)) return {};
  const TensorRef& load_E = saved_[saved_slot].layers[layer_of(unit)].ffn.route.load_E;
  if (!load_E) return {};
  return {load_E.as<int32_t>(), size_t(load_E.num_elements())};
}

std::span<int32_t> TransformerStage::tokens(int saved_slot) const {
  if (!stage_.has_embedding) return {};
  const TensorRef& tokens_T = saved_[saved_slot].embedding.tokens_T;
  return {tokens_T.as<int32_t>(), size_t(tokens_T.num_elements())};
}
std::span<int32_t> TransformerStage::targets(int saved_slot) const {
  if (!stage_.has_head) return {};
  const TensorRef& targets_T = saved_[saved_slot].head.targets_T;
  return {targets_T.as<int32_t>(), size_t(targets_T.num_elements())};
}
std::span<const float> TransformerStage::losses(int saved_slot) const {
  if (!stage_.has_head) return {};
  const TensorRef& loss_T = saved_[saved_slot].head.loss_T;
  return {loss_T.as<float>(), size_t(loss_T.num_elements())};
}

}  // namespace trireme
