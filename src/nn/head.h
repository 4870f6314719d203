#pragma once

#include "nn/norm.h"

namespace trireme {

// loss_t = cross_entropy(norm(y_t) W^T, target_t). The vocabulary projection, its softmax and dh
// are done tile by tile of tokens inside F, so fp32 logits exist for one tile only. In bf16 dlogits
// are kept for W; in fp32 W projects each tile again. Legend: T tokens, t tokens of one tile, C
// d_model, V vocabulary.
struct HeadBlock {
  struct Params {
    Norm::Params norm;
    MatrixRef weight_VC;
    // `weight` names the projection: "head.weight", or the embedding's table when tied.
    static Params bind(const Frame& frame, const std::string& weight);
  };
  struct Saved {
    MatrixRef y_TC;  // incoming
    MatrixRef h_TC;  // the norm's output; y itself without a final norm
    Norm::Stats norm;
    TensorRef targets_T;
    TensorRef loss_T;
    MatrixRef dh_TC;
    MatrixRef dlogits_TV;      // absent: projected again in W
    MatrixRef logits_tile_tV;  // fp32 scratch
  };

  ModelSpec model;
  Norm norm;
  MatrixRef weight_VC;

  static HeadBlock bind(const ModelSpec& model, const Frame& params, const std::string& weight);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  void backward_input(Ctx& ctx, const Saved& saved, MatrixRef dy_TC) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Params& dparams, Write write) const;

 private:
  // Logits of the tile of rows [begin, begin + count), their losses and, where wanted, dlogits.
  void loss_of_tile(Ctx& ctx, const Saved& saved, int64_t begin, int64_t count,
                    MatrixRef dlogits_tV) const;
};

}  // namespace trireme
