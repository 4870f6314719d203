#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/transformer_stage.h"

namespace trireme {
namespace {

// As in stage_tables.h, for one sequence and dropless.
void add_experts(TensorTable& table, const ModelSpec& model, DType compute) {
  const int64_t S = model.seq_len, E = model.experts, k = model.top_k, A = S * k;
  table.add("route.score_TE", Shape{S, E}, DType::F32);
  table.add("route.lse_T", Shape{S}, DType::F32);
  table.add("route.expert_Tk", Shape{S, k}, DType::I32);
  table.add("route.weight_Tk", Shape{S, k}, DType::F32);
  table.add("route.row_Tk", Shape{S, k}, DType::I32);
  table.add("route.token_A", Shape{A}, DType::I32);
  table.add("route.weight_A", Shape{A}, DType::F32);
  table.add("route.begin_E", Shape{E + 1}, DType::I32);
  table.add("route.count_nE", Shape{1, E}, DType::I32);
  table.add("route.load_E", Shape{E + 1}, DType::I32);
  for (const char* name : {"x_RC", "part_RC"}) table.add(name, Shape{A, model.d_model}, compute);
  table.add("u_RU", Shape{A, model.up_width()}, compute);
  table.add("a_RF", Shape{A, model.d_ff}, compute);
  if (model.shared_experts == 0) return;
  table.add("u_SU", Shape{S, 2 * model.shared_width()}, compute);
  table.add("a_SF", Shape{S, model.shared_width()}, compute);
}

TensorTable decoder_table(const ModelSpec& model, DType compute) {
  const int64_t S = model.seq_len;
  const int64_t C = model.d_model;
  TensorTable table;
  table.add("tokens_S", Shape{S}, DType::I32);
  for (const char* name : {"e_SC", "x_SC", "h_SC", "x1_SC"}) table.add(name, Shape{S, C}, compute);
  table.add("q_SQ", Shape{S, model.q_width()}, compute);
  table.add("o_SQ", Shape{S, model.q_width()}, compute);
  if (model.has_experts()) {
    add_experts(table, model, compute);
  } else {
    table.add("u_SU", Shape{S, model.up_width()}, compute);
    table.add("a_SF", Shape{S, model.d_ff}, compute);
  }
  table.add("mean_S", Shape{S}, DType::F32);
  table.add("rstd_S", Shape{S}, DType::F32);
  table.add("logits_1V", Shape{1, model.vocab_size}, DType::F32);
  for (int64_t i = 0; i < model.layers; ++i) {
    table.add(fmt::format("layers.{}.cache", i), Shape{S, 2 * model.kv_width()}, compute);
  }
  if (model.rope) {
    table.add("rope.cos_SD", Shape{S, model.head_dim / 2}, DType::F32);
    table.add("rope.sin_SD", Shape{S, model.head_dim / 2}, DType::F32);
  }
  return table;
}

TensorRef slice(const TensorRef& x_N, int64_t begin, int64_t count) {
  if (!x_N) return {};
  return {static_cast<char*>(x_N.data) + begin * size_of(x_N.dtype), x_N.dtype, Shape{count}};
}

// The rows [begin, begin + count) of a stacked linear, as a linear of its own.
Linear part_of(const Linear& linear, int64_t begin, int64_t count) {
  return {{rows_of(linear.params.w_FC, begin, count), slice(linear.params.b_F, begin, count)}};
}

}  // namespace

Decoder::Decoder(const ModelSpec& model, const Frame& params, DType compute)
    : model_(shard_model(model, {})),
      table_(decoder_table(model, compute)),
      memory_(Buffer::allocate(table_.bytes())),
      embedding_(EmbeddingBlock::bind(model_, params, 0)),
      head_(HeadBlock::bind(
          model_, params,
          matrix(params.at(model.tied_head ? "embedding.tokens" : "head.weight")))) {
  const Frame frame(table_, memory_.data());
  model_.capacity_factor = 0.0;  // what a token is told does not depend on those beside it
  rope_ = {frame.find("rope.cos_SD"), frame.find("rope.sin_SD")};
  if (rope_.cos_SD) fill_rope_table(model_, rope_);
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string name = fmt::format("layers.{}.", i);
    const AttentionBlock attention = AttentionBlock::bind(model_, params, name, rope_, 0);
    layers_.push_back({attention, FeedForward::bind(model_, params, name, 0),
                       part_of(attention.qkv, 0, model.q_width()),
                       part_of(attention.qkv, model.q_width(), 2 * model.kv_width()),
                       matrix(frame.at(name + "cache"))});
  }
  tokens_S_ = frame.at("tokens_S");
  e_SC_ = matrix(frame.at("e_SC"));
  x_SC_ = matrix(frame.at("x_SC"));
  h_SC_ = matrix(frame.at("h_SC"));
  x1_SC_ = matrix(frame.at("x1_SC"));
  q_SQ_ = matrix(frame.at("q_SQ"));
  o_SQ_ = matrix(frame.at("o_SQ"));
  if (frame.contains("u_SU")) {
    u_SU_ = matrix(frame.at("u_SU"));
    a_SF_ = matrix(frame.at("a_SF"));
  }
  if (model_.has_experts()) bind_experts(frame);
  logits_1V_ = matrix(frame.at("logits_1V"));
  mean_S_ = frame.at("mean_S");
  rstd_S_ = frame.at("rstd_S");
}

std::span<const float> Decoder::append(Ctx& ctx, std::span<const int32_t> tokens) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  TRIREME_CHECK(n >= 1 && length_ + n <= capacity(), "the context does not take so many tokens");
  std::copy(tokens.begin(), tokens.end(), tokens_S_.as<int32_t>());
  const Norm::Stats stats{slice(mean_S_, 0, n), slice(rstd_S_, 0, n)};
  const MicrobatchInfo info{1, 0, false};

  const MatrixRef x_nC = rows_of(x_SC_, 0, n);
  const MatrixRef e_nC = model_.embedding_norm ? rows_of(e_SC_, 0, n) : x_nC;
  ctx.kernels.embedding_forward(ctx.stream,
                                {slice(tokens_S_, 0, n), embedding_.params.table_VC,
                                 embedding_.params.positions_SC, model_.seq_len, length_, e_nC});
  if (model_.embedding_norm) embedding_.norm.forward(ctx, e_nC, x_nC, stats);
  const FeedForward::Saved ffn = ffn_of(n);
  for (const Layer& layer : layers_) {
    attend(ctx, layer, length_, n);
    layer.ffn.forward(ctx, info, ffn);
  }
  length_ += n;

  MatrixRef last_1C = rows_of(x_SC_, n - 1, 1);
  if (model_.final_norm) {
    const MatrixRef h_1C = rows_of(h_SC_, 0, 1);
    head_.norm.forward(ctx, last_1C, h_1C, {slice(mean_S_, 0, 1), slice(rstd_S_, 0, 1)});
    last_1C = h_1C;
  }
  ctx.kernels.matmul(ctx.stream,
                     {.form = MatmulForm::NT, .a = last_1C, .b = head_.weight_VC, .c = logits_1V_});
  return {logits_1V_.row<float>(0), size_t(model_.vocab_size)};
}

void Decoder::bind_experts(const Frame& frame) {
  experts_.bind([&](const char* name) { return frame.find(name); });
}

FeedForward::Saved Decoder::ffn_of(int64_t n) const {
  FeedForward::Saved s = experts_;
  s.mlp.x1_TC = rows_of(x1_SC_, 0, n);
  s.mlp.h_TC = s.mlp.h_full_TC = rows_of(h_SC_, 0, n);
  s.mlp.y_TC = s.mlp.partial_TC = rows_of(x_SC_, 0, n);
  s.mlp.norm = {slice(mean_S_, 0, n), slice(rstd_S_, 0, n)};
  if (u_SU_) {
    s.mlp.u_TU = rows_of(u_SU_, 0, n);
    s.mlp.a_TF = rows_of(a_SF_, 0, n);
  }
  MoeBlock::Route& route = s.route;
  if (!route.score_TE) return s;
  for (MatrixRef* x : {&route.score_TE, &route.expert_Tk, &route.weight_Tk, &route.row_Tk}) {
    *x = rows_of(*x, 0, n);
  }
  route.lse_T = slice(route.lse_T, 0, n);
  return s;
}

// x1 = x + attention(norm(x)) over the cache, whose rows first_position .. + n are written here.
void Decoder::attend(Ctx& ctx, const Layer& layer, int64_t first_position, int64_t n) {
  const MatrixRef x_nC = rows_of(x_SC_, 0, n);
  const MatrixRef h_nC = rows_of(h_SC_, 0, n);
  const MatrixRef q_nQ = rows_of(q_SQ_, 0, n);
  const MatrixRef o_nQ = rows_of(o_SQ_, 0, n);
  const MatrixRef new_n_2K = rows_of(layer.cache_S_2K, first_position, n);
  layer.attention.norm.forward(ctx, x_nC, h_nC, {slice(mean_S_, 0, n), slice(rstd_S_, 0, n)});
  layer.q.forward(ctx, h_nC, q_nQ);
  layer.kv.forward(ctx, h_nC, new_n_2K);
  if (rope_.cos_SD) {
    for (const MatrixRef& x : {q_nQ, cols_of(new_n_2K, 0, model_.kv_width())}) {
      ctx.kernels.rope(ctx.stream, {Rotation::Forward, x, model_.head_dim, rope_.cos_SD,
                                    rope_.sin_SD, model_.seq_len, first_position});
    }
  }
  const int64_t kv_len = first_position + n;
  const MatrixRef cache = rows_of(layer.cache_S_2K, 0, kv_len);
  ctx.kernels.attention_forward(ctx.stream,
                                {{1, n, kv_len, model_.heads, model_.kv_heads, model_.head_dim,
                                  1.0f / std::sqrt(static_cast<float>(model_.head_dim))},
                                 {},
                                 q_nQ,
                                 cols_of(cache, 0, model_.kv_width()),
                                 cols_of(cache, model_.kv_width(), model_.kv_width()),
                                 o_nQ,
                                 {}});
  layer.attention.out.forward(ctx, o_nQ, rows_of(x1_SC_, 0, n), x_nC);
}

}  // namespace trireme
