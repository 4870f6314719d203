#include "nn/embedding.h"

namespace trireme {

EmbeddingBlock::Params EmbeddingBlock::Params::bind(const Frame& frame) {
  const TensorRef positions = frame.find("embedding.positions");
  return {matrix(frame.at("embedding.tokens")), positions ? matrix(positions) : MatrixRef{},
          Norm::bind_params(frame, "embedding.norm")};
}

EmbeddingBlock EmbeddingBlock::bind(const ModelSpec& model, const Frame& params, uint64_t seed) {
  return {model, Params::bind(params), Norm::bind(model, params, "embedding.norm"),
          rng_key(seed, "embedding.dropout")};
}

void EmbeddingBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  ctx.kernels.embedding_forward(
      ctx.stream, {s.tokens_T, params.table_VC, params.positions_SC, model.seq_len, 0, s.e_TC});
  if (model.dropout > 0.0 && info.training) {
    ctx.kernels.dropout(ctx.stream, {s.e_TC,
                                     {},
                                     s.e_TC,
                                     static_cast<float>(model.dropout),
                                     dropout_key,
                                     info.first_sample,
                                     model.seq_len});
  }
  if (model.embedding_norm) norm.forward(ctx, s.e_TC, s.x_TC, s.norm);
}

void EmbeddingBlock::backward_weight(Ctx& ctx, const MicrobatchInfo& info, const Saved& s,
                                     MatrixRef dx_TC, MatrixRef de_TC, const Params& dparams,
                                     Write write, Write table_write) const {
  MatrixRef d_TC = dx_TC;
  if (model.embedding_norm) {
    norm.backward_weight(ctx, d_TC, s.e_TC, s.norm, dparams.norm, write);
    norm.backward_input(ctx, d_TC, s.e_TC, s.norm, {}, de_TC);
    d_TC = de_TC;
  }
  if (model.dropout > 0.0) {
    ctx.kernels.dropout(ctx.stream, {d_TC,
                                     {},
                                     de_TC,
                                     static_cast<float>(model.dropout),
                                     dropout_key,
                                     info.first_sample,
                                     model.seq_len});
    d_TC = de_TC;
  }
  if (dparams.positions_SC && write != table_write) {  // the positions have no other use
    const Shape flat{dparams.positions_SC.rows * dparams.positions_SC.cols};
    ctx.kernels.zero(ctx.stream, {{dparams.positions_SC.data, DType::F32, flat}});
  }
  ctx.kernels.embedding_backward(ctx.stream, {s.tokens_T, d_TC, dparams.table_VC,
                                              dparams.positions_SC, model.seq_len, table_write});
}

}  // namespace trireme
