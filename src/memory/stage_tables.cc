#include "memory/stage_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

// Legend: T tokens of a micro-batch, C d_model, F d_ff, U up_width, Q q_width, H heads, V
// vocabulary, all as this tensor-parallel rank has them. Under sequence parallelism what lies on
// the residual stream has this rank's part of the T tokens; what is gathered from it is named
// "full".
struct Extents {
  Extents(const ModelShard& shard, const StageShape& stage)
      : sequences(stage.micro_sequences),
        full(stage.micro_sequences * shard.local_len()),
        residual(local_shape(Shape{full}, shard.residual, stage.tp, stage.tp_rank).num_elements()),
        is_split(shard.residual.kind == Placement::Kind::Shard) {}
  int64_t sequences;  // of the micro-batch
  int64_t full;       // tokens of the micro-batch
  int64_t residual;   // of them, those of this rank's part of the residual stream
  bool is_split;      // the residual stream lies in parts
};

struct LayerTensor {
  const char* name;
  Shape shape;
  DType dtype;
  Recompute kept_up_to;  // the strongest recomputation under which it is still stored
};

// Legend: E experts, k experts of a token, A visits of this rank's tokens, R of this rank's experts
// (the same where one rank has all experts), n sequences. Where every token goes is always kept: no
// recomputation may send it elsewhere.
void add_expert_activations(std::vector<LayerTensor>& tensors, const ModelShard& model,
                            const Extents& extents, DType compute) {
  const int64_t T = extents.full, E = model.experts, k = model.top_k;
  const int64_t A = model.sent_rows(T), R = model.held_rows(T), n = extents.sequences;
  const auto keep = [&](const char* name, const Shape& shape, DType dtype) {
    tensors.push_back({name, shape, dtype, Recompute::Full});
  };
  keep("route.score_TE", Shape{T, E}, DType::F32);
  keep("route.lse_T", Shape{T}, DType::F32);
  keep("route.expert_Tk", Shape{T, k}, DType::I32);
  keep("route.weight_Tk", Shape{T, k}, DType::F32);
  keep("route.row_Tk", Shape{T, k}, DType::I32);
  keep("route.token_A", Shape{A}, DType::I32);
  keep("route.weight_A", Shape{A}, DType::F32);
  keep("route.begin_E", Shape{E + 1}, DType::I32);
  keep("route.count_nE", Shape{n, E}, DType::I32);
  keep("route.load_E", Shape{E + 1}, DType::I32);
  if (model.ep > 1) {
    keep("route.weight_R", Shape{R}, DType::F32);
    keep("route.begin_R", Shape{E + 1}, DType::I32);
  }
  tensors.push_back({"x_RC", Shape{R, model.d_model}, compute, Recompute::Selective});
  tensors.push_back({"u_RU", Shape{R, model.up_width()}, compute, Recompute::Selective});
  tensors.push_back({"a_RF", Shape{R, model.d_ff}, compute, Recompute::None});
  if (model.shared_experts == 0) return;
  const int64_t shared = model.shared_width();
  tensors.push_back({"shared.u_TU", Shape{T, 2 * shared}, compute, Recompute::Selective});
  tensors.push_back({"shared.a_TF", Shape{T, shared}, compute, Recompute::None});
}

// What a layer's forward pass writes and its backward pass reads.
std::vector<LayerTensor> layer_activations(const ModelShard& model, const Extents& extents,
                                           DType compute) {
  const int64_t T = extents.full, R = extents.residual, C = model.d_model;
  std::vector<LayerTensor> tensors = {{"x_TC", Shape{R, C}, compute, Recompute::Full}};
  const auto add_norm = [&](const char* mean, const char* rstd, const char* output) {
    if (model.norm == NormType::LayerNorm) {
      tensors.push_back({mean, Shape{R}, DType::F32, Recompute::Selective});
    }
    tensors.push_back({rstd, Shape{R}, DType::F32, Recompute::Selective});
    tensors.push_back({output, Shape{R, C}, compute, Recompute::None});
  };
  add_norm("norm1.mean_T", "norm1.rstd_T", "h1_TC");
  tensors.push_back({"qkv_TD", Shape{T, model.qkv_width()}, compute, Recompute::Selective});
  tensors.push_back({"o_TQ", Shape{T, model.q_width()}, compute, Recompute::Selective});
  tensors.push_back({"lse_HT", Shape{model.heads, T}, DType::F32, Recompute::Selective});
  tensors.push_back({"x1_TC", Shape{R, C}, compute, Recompute::Selective});
  add_norm("norm2.mean_T", "norm2.rstd_T", "h2_TC");
  if (model.has_experts()) {
    add_expert_activations(tensors, model, extents, compute);
    return tensors;
  }
  tensors.push_back({"u_TU", Shape{T, model.up_width()}, compute, Recompute::Selective});
  tensors.push_back({"a_TF", Shape{T, model.d_ff}, compute, Recompute::None});
  return tensors;
}

// The layer gradients that W reads.
std::vector<LayerTensor> layer_weight_grad_inputs(const ModelShard& model, const Extents& extents,
                                                  DType compute) {
  const int64_t T = extents.full, C = model.d_model;
  const Shape RC{extents.residual, C};
  std::vector<LayerTensor> tensors;
  const auto add = [&](const char* name, const Shape& shape) {
    tensors.push_back({name, shape, compute, Recompute::None});
  };
  if (model.has_experts()) {
    const int64_t R = model.held_rows(T);
    add("du_RU", Shape{R, model.up_width()});
    add("dy_RC", Shape{R, C});
    add("dlogits_TE", Shape{T, model.experts});
    if (model.shared_experts > 0) add("shared.du_TU", Shape{T, 2 * model.shared_width()});
  } else {
    add("du_TU", Shape{T, model.up_width()});
  }
  add("dh2_TC", RC);
  add("dx1_TC", RC);
  add("dqkv_TD", Shape{T, model.qkv_width()});
  add("dh1_TC", RC);
  for (const char* name : {"dp1_TC", "dp2_TC"}) {
    if (model.dropout > 0.0) add(name, RC);
  }
  for (const char* name : {"dp1_full_TC", "dp2_full_TC"}) {
    if (extents.is_split) add(name, Shape{T, C});
  }
  return tensors;
}

std::string layer_prefix(int64_t layer_index) { return fmt::format("layers.{}.", layer_index); }

TensorTable saved_table(const ModelShard& model, const StageSpec& stage, const StageShape& shape) {
  const Extents extents(model, shape);
  const int64_t T = extents.full, R = extents.residual, C = model.d_model;
  TensorTable table;
  if (stage.has_embedding) {
    table.add("tokens_T", Shape{T}, DType::I32);
    if (model.embedding_norm) {
      table.add("embedding.x_TC", Shape{R, C}, shape.compute);
      if (model.norm == NormType::LayerNorm) table.add("embedding.mean_T", Shape{R}, DType::F32);
      table.add("embedding.rstd_T", Shape{R}, DType::F32);
    }
  }
  for (int64_t i = 0; i < stage.num_layers; ++i) {
    for (const LayerTensor& tensor : layer_activations(model, extents, shape.compute)) {
      if (shape.recompute > tensor.kept_up_to) continue;
      table.add(layer_prefix(stage.first_layer + i) + tensor.name, tensor.shape, tensor.dtype);
    }
  }
  table.add("y_TC", Shape{R, C}, shape.compute);  // the last layer's output
  if (stage.has_head) {
    table.add("targets_T", Shape{T}, DType::I32);
    for (const char* name : {"loss_T", "head.max_T", "head.sum_T"}) {
      table.add(name, Shape{T}, DType::F32);
    }
    if (model.final_norm) {
      if (model.norm == NormType::LayerNorm) table.add("head.mean_T", Shape{R}, DType::F32);
      table.add("head.rstd_T", Shape{R}, DType::F32);
      table.add("head.h_TC", Shape{R, C}, shape.compute);
    }
    table.add("head.dh_TC", Shape{R, C}, shape.compute);
    if (shape.compute != DType::F32) {
      table.add("head.dlogits_TV", Shape{T, model.vocab_size}, shape.compute);
    }
  }
  return table;
}

TensorTable weight_grad_table(const ModelShard& model, const StageSpec& stage,
                              const StageShape& shape) {
  TensorTable table;
  if (!shape.split_backward) return table;
  const Extents extents(model, shape);
  const Shape RC{extents.residual, model.d_model};
  for (int64_t i = 0; i < stage.num_layers; ++i) {
    const std::string layer = layer_prefix(stage.first_layer + i);
    for (const LayerTensor& tensor : layer_weight_grad_inputs(model, extents, shape.compute)) {
      table.add(layer + tensor.name, tensor.shape, tensor.dtype);
    }
    table.add(layer + "dy_TC", RC, shape.compute);
  }
  table.add("dx_TC", RC, shape.compute);  // of the stage's input
  return table;
}

// What ring attention needs beside its inputs and outputs. Legend: L tokens of one sequence, W keys
// and values side by side.
void add_ring(TensorTable& table, const ModelShard& model, const StageShape& shape) {
  const int64_t L = model.local_len(), T = shape.micro_sequences * L;
  const int64_t Q = model.q_width(), W = 2 * model.kv_width();
  for (const char* name : {"ring.kv_TW[0]", "ring.kv_TW[1]"}) {
    table.add(name, Shape{T, W}, shape.compute);
  }
  for (const char* name : {"ring.dkv_TW[0]", "ring.dkv_TW[1]"}) {
    table.add(name, Shape{T, W}, DType::F32);
  }
  table.add("ring.sum_TQ", Shape{T, Q}, DType::F32);
  table.add("ring.part_LQ", Shape{L, Q}, shape.compute);
  table.add("ring.part_LW", Shape{L, W}, shape.compute);
  table.add("ring.part_lse_HL", Shape{model.heads, L}, DType::F32);
  table.add("ring.part_delta_HL", Shape{model.heads, L}, DType::F32);
}

void add_expert_scratch(TensorTable& table, const ModelShard& model, int64_t T, DType compute) {
  if (model.counts_earlier_visits()) {
    const int64_t n = T / model.local_len(), E = model.experts;
    table.add("visits.count_KE", Shape{n * model.chunks.num_chunks(), E}, DType::I32);
    table.add("visits.before_cE", Shape{2 * n, E}, DType::I32);
  }
  const int64_t A = model.sent_rows(T), R = model.held_rows(T);
  table.add("part_RC", Shape{R, model.d_model}, compute);  // what experts give back, either way
  table.add("da_RF", Shape{R, model.d_ff}, compute);
  table.add("dweight_R", Shape{R}, DType::F32);
  if (model.ep > 1) {  // what comes from and goes to experts of all ranks
    table.add("sent_AC", Shape{A, model.d_model}, compute);
    table.add("dweight_A", Shape{A}, DType::F32);
    table.add("exchange.taken_E", Shape{model.experts}, DType::I32);
    table.add("exchange.counts_2P", Shape{2, model.ep}, DType::I64);
  }
  if (model.shared_experts > 0) {
    table.add("shared.da_TF", Shape{T, model.shared_width()}, compute);
  }
}

// What attention by all-to-all needs: blocks that are sent and that came, and its operands, q, k,
// v, out, dout and the first three's gradients, of this rank's heads and all tokens.
void add_heads(TensorTable& table, const ModelShard& model, const StageShape& shape) {
  const int64_t T = shape.micro_sequences * model.local_len();
  const int64_t gradients = model.qkv_width(), operands = gradients + 2 * model.q_width();
  table.add("heads.send_TX", Shape{T, operands}, shape.compute);
  table.add("heads.recv_TX", Shape{T, operands}, shape.compute);
  table.add("heads.operands_NX", Shape{T * shape.cp, operands / shape.cp}, shape.compute);
  table.add("heads.gradients_NX", Shape{T * shape.cp, gradients / shape.cp}, shape.compute);
}

TensorTable scratch_table(const ModelShard& model, const StageSpec& stage,
                          const StageShape& shape) {
  const Extents extents(model, shape);
  const int64_t T = extents.full;
  const Shape TC{T, model.d_model}, RC{extents.residual, model.d_model};
  TensorTable table;
  // First, so that it lies at the same place for all chunks of a rank, which share their scratch.
  if (shape.cp > 1) {
    const bool is_ring = shape.context_exchange == ContextExchange::Ring;
    (is_ring ? add_ring : add_heads)(table, model, shape);
  }
  if (model.rope) {
    table.add("rope.cos_SD", Shape{model.local_len(), model.head_dim / 2}, DType::F32);
    table.add("rope.sin_SD", Shape{model.local_len(), model.head_dim / 2}, DType::F32);
  }
  for (const LayerTensor& tensor : layer_activations(model, extents, shape.compute)) {
    if (shape.recompute > tensor.kept_up_to) table.add(tensor.name, tensor.shape, tensor.dtype);
  }
  // What is gathered from the residual stream, and the partial sums that go back to it.
  if (extents.is_split) table.add("full_TC", TC, shape.compute);
  if (extents.is_split && shape.tp_overlap) {  // the largest part
    table.add("edge.sum_RC", Shape{balanced_count(T, shape.tp, 0), model.d_model}, shape.compute);
  }
  for (int level = 0; 1 << level < model.slices.count; ++level) {
    table.add(slice_sum_name(level), TC, shape.compute);
  }
  if (model.has_experts()) {
    add_expert_scratch(table, model, T, shape.compute);
  } else {
    table.add("da_TF", Shape{T, model.d_ff}, shape.compute);
  }
  table.add("do_TQ", Shape{T, model.q_width()}, shape.compute);
  table.add("delta_HT", Shape{model.heads, T}, DType::F32);
  if (!shape.split_backward) {
    table.add("dx_TC", RC, shape.compute);  // from layer to layer
    for (const LayerTensor& tensor : layer_weight_grad_inputs(model, extents, shape.compute)) {
      table.add(tensor.name, tensor.shape, tensor.dtype);
    }
  }
  if (stage.has_head) {
    const int64_t tile = std::min(T, kLossTileTokens);
    table.add("head.logits_tile_tV", Shape{tile, model.vocab_size}, DType::F32);
    table.add("head.part_3t", Shape{3 * model.slices.count, tile}, DType::F32);
    table.add("head.parts_3Rt", Shape{3 * model.slices.all, tile}, DType::F32);
    if (extents.is_split) table.add("head.dh_full_TC", TC, shape.compute);
  }
  if (stage.has_embedding && (model.embedding_norm || model.dropout > 0.0)) {
    table.add("embedding.de_TC", RC, shape.compute);
  }
  return table;
}

}  // namespace

std::string slice_sum_name(int level) { return fmt::format("slices.sum_TC[{}]", level); }

TensorTable optimizer_table(const std::vector<ParamSpec>& params, DType compute,
                            const OptimizerStateSpec& state) {
  TensorTable table;
  const auto add_all = [&](const std::string& prefix) {
    for (const ParamSpec& param : params) table.add(prefix + param.name, param.shape, DType::F32);
  };
  if (compute != DType::F32) add_all("master/");
  if (state.exp_avg) add_all("exp_avg/");
  if (state.exp_avg_sq) add_all("exp_avg_sq/");
  return table;
}

StageTables stage_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  StageTables tables;
  const ModelShard shard = shard_model(model, shape);
  const std::vector<ParamSpec> params = local_param_table(model, stage, shape);
  for (const ParamSpec& param : params) {
    tables.params.add(param.name, param.shape, shape.compute, param.adjoins_previous);
    tables.grads.add(param.name, param.shape, DType::F32, param.adjoins_previous);
  }
  const bool tied_here = model.tied_head && stage.has_embedding && stage.has_head;
  if (tied_here && shape.tied_use_apart) {
    tables.grads.add("embedding.tokens@head", Shape{shard.vocab_size, model.d_model}, DType::F32);
  }
  tables.optimizer = optimizer_table(params, shape.compute, shape.optimizer_state);
  tables.saved = saved_table(shard, stage, shape);
  tables.weight_grad = weight_grad_table(shard, stage, shape);
  tables.scratch = scratch_table(shard, stage, shape);
  return tables;
}

}  // namespace trireme
