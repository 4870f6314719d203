#pragma once

#include "graph/model_shard.h"
#include "nn/norm.h"
#include "nn/slice_sum.h"

namespace trireme {

// loss_t = cross_entropy(norm(y_t) W^T, target_t). The vocabulary projection, its softmax and dh
// are done tile by tile of tokens inside F, so fp32 logits exist for one tile only. In bf16 dlogits
// are kept for W; in fp32 W projects each tile again. Each tp rank has rows of the vocabulary,
// in slices; the loss is the same on all. Legend: T tokens (on the residual stream this rank's part
// of them; "full": all, where that differs), t tokens of one tile, C d_model, V rows of the
// vocabulary, R slices of all ranks.
struct HeadBlock {
  struct Params {
    Norm::Params norm;
    MatrixRef weight_VC;
    // The projection is a matrix of its own, or the embedding's table when tied.
    static Params bind(const Frame& frame, MatrixRef weight_VC);
  };
  struct Saved {
    MatrixRef y_TC;  // incoming
    MatrixRef h_TC;  // the norm's output; y itself without a final norm
    Norm::Stats norm;
    TensorRef targets_T;
    TensorRef loss_T;
    TensorRef max_T, sum_T;  // of the softmax, over all ranks
    MatrixRef h_full_TC;     // scratch; h itself where the residual stream has all tokens
    MatrixRef dh_full_TC;    // scratch: the addends of dh; likewise dh itself
    MatrixRef dh_TC;
    MatrixRef dlogits_TV;          // absent: projected again in W
    MatrixRef logits_tile_tV;      // fp32 scratch
    TensorRef part_3t, parts_3Rt;  // fp32 scratch: what the slices say of a tile's softmax
  };

  ModelShard model;
  Norm norm;
  MatrixRef weight_VC;
  SliceSum over_slices;

  static HeadBlock bind(const ModelShard& model, const Frame& params, MatrixRef weight_VC,
                        const SliceSum& over_slices = {});

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  void backward_input(Ctx& ctx, const Saved& saved, MatrixRef dy_TC) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Params& dparams, Write write) const;

 private:
  void gather(Ctx& ctx, const Saved& saved) const;
  // This rank's rows of the vocabulary in a slice.
  struct Rows {
    int64_t begin, count;
  };
  Rows rows_of_slice(int slice) const;
  // The rows [begin, begin + count): a tile.
  MatrixRef project_tile(Ctx& ctx, const Saved& saved, int64_t begin, int64_t count) const;
  void loss_of_tile(Ctx& ctx, const Saved& saved, int64_t begin, MatrixRef logits_tV) const;
  void gradient_of_tile(Ctx& ctx, const Saved& saved, int64_t begin, MatrixRef logits_tV,
                        MatrixRef dlogits_tV) const;
  void input_gradient_of_tile(Ctx& ctx, MatrixRef dlogits_tV, MatrixRef dh_tC) const;
};

}  // namespace trireme
