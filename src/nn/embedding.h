#pragma once

#include "nn/norm.h"

namespace trireme {

// x = norm(dropout(table[token] + positions)); positions, dropout and norm where the model has
// them.
struct EmbeddingBlock {
  struct Params {
    MatrixRef table_VC;
    MatrixRef positions_SC;  // absent with rotary positions
    Norm::Params norm;
    static Params bind(const Frame& frame);
  };
  struct Saved {
    TensorRef tokens_T;
    MatrixRef e_TC;  // the norm's input; x itself without an embedding norm
    MatrixRef x_TC;
    Norm::Stats norm;
  };

  ModelSpec model;
  Params params;
  Norm norm;
  RngKey dropout_key;

  static EmbeddingBlock bind(const ModelSpec& model, const Frame& params, uint64_t seed);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  // Nothing lies before the embedding, so its whole backward pass is W. de is scratch (absent where
  // there is neither norm nor dropout). table_write differs from write where a tied head has
  // already written the table's gradient.
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved, MatrixRef dx_TC,
                       MatrixRef de_TC, const Params& dparams, Write write,
                       Write table_write) const;
};

}  // namespace trireme
