#pragma once

#include "graph/model_shard.h"
#include "nn/norm.h"

namespace trireme {

// x = norm(dropout(table[token] + positions)); positions, dropout and norm where the model has
// them. Each tp rank has rows of the table. Legend: T tokens (on the residual stream this rank's
// part of them; "full": all, where that differs), C d_model, V rows of the table, S seq_len.
struct EmbeddingBlock {
  struct Params {
    MatrixRef table_VC;
    MatrixRef positions_SC;  // absent with rotary positions
    Norm::Params norm;
    static Params bind(const Frame& frame);
  };
  struct Saved {
    TensorRef tokens_T;
    MatrixRef e_full_TC;  // scratch: the addends of e; e itself where that has all tokens
    MatrixRef e_TC;       // the norm's input; x itself without an embedding norm
    MatrixRef x_TC;
    Norm::Stats norm;
  };

  ModelShard model;
  Params params;
  Norm norm;
  RngKey dropout_key;

  static EmbeddingBlock bind(const ModelShard& model, const Frame& params, uint64_t seed);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  struct Grads {
    MatrixRef dx_TC;       // incoming
    MatrixRef de_TC;       // scratch; absent where there is neither norm nor dropout
    MatrixRef de_full_TC;  // scratch; absent where the residual stream has all tokens
  };
  // Nothing lies before the embedding, so its whole backward pass is W. table_write differs from
  // write where a tied head has already written the table's gradient.
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved, const Grads& grads,
                       const Params& dparams, Write write, Write table_write) const;
};

}  // namespace trireme
