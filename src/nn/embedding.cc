#include "nn/embedding.h"

#include "nn/positions.h"
#include "nn/residual.h"

namespace trireme {

EmbeddingBlock::Params EmbeddingBlock::Params::bind(const Frame& frame) {
  const TensorRef positions = frame.find("embedding.positions");
  return {matrix(frame.at("embedding.tokens")), positions ? matrix(positions) : MatrixRef{},
          Norm::bind_params(frame, "embedding.norm")};
}

EmbeddingBlock EmbeddingBlock::bind(const ModelShard& model, const Frame& params, uint64_t seed) {
  return {model, Params::bind(params), Norm::bind(model, params, "embedding.norm"),
          rng_key(seed, "embedding.dropout")};
}

void EmbeddingBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  // One addend has the token's row; the first rank adds the positions.
  ctx.kernels.embedding_forward(ctx.stream, {s.tokens_T,
                                             params.table_VC,
                                             ctx.tp.rank() == 0 ? params.positions_SC : MatrixRef{},
                                             model.local_len(),
                                             0,
                                             s.e_full_TC,
                                             {model.first_token, model.num_tokens},
                                             positions_of(model.chunks)});
  redistribute_tokens(ctx, leave_block(model.residual), s.e_full_TC.rows, s.e_full_TC, s.e_TC);
  if (model.dropout > 0.0 && info.training) {
    drop_tokens(ctx, info, dropout_key, model, s.e_TC, {}, s.e_TC);
  }
  if (model.embedding_norm) norm.forward(ctx, s.e_TC, s.x_TC, s.norm);
}

void EmbeddingBlock::backward_weight(Ctx& ctx, const MicrobatchInfo& info, const Saved& s,
                                     const Grads& g, const Params& dparams, Write write,
                                     Write table_write) const {
  MatrixRef d_TC = g.dx_TC;
  if (model.embedding_norm) {
    norm.backward_weight(ctx, d_TC, s.e_TC, s.norm, dparams.norm, write);
    norm.backward_input(ctx, d_TC, s.e_TC, s.norm, {}, g.de_TC);
    d_TC = g.de_TC;
  }
  if (model.dropout > 0.0) {
    drop_tokens(ctx, info, dropout_key, model, d_TC, {}, g.de_TC);
    d_TC = g.de_TC;
  }
  const MatrixRef d_full_TC = g.de_full_TC ? g.de_full_TC : d_TC;
  redistribute_tokens(ctx, backward_of(leave_block(model.residual)), d_full_TC.rows, d_TC,
                      d_full_TC);
  if (dparams.positions_SC && write != table_write) {  // the positions have no other use
    const Shape flat{dparams.positions_SC.rows * dparams.positions_SC.cols};
    ctx.kernels.zero(ctx.stream, {{dparams.positions_SC.data, DType::F32, flat}});
  }
  ctx.kernels.embedding_backward(ctx.stream, {s.tokens_T,
                                              d_full_TC,
                                              dparams.table_VC,
                                              dparams.positions_SC,
                                              model.local_len(),
                                              table_write,
                                              {model.first_token, model.num_tokens},
                                              positions_of(model.chunks)});
}

}  // namespace trireme
