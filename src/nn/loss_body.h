#pragma once

#include <optional>

#include "nn/op_binding.h"
#include "nn/op_body.h"

namespace trireme {

// loss_t = cross_entropy(h_t W^T, target_t). The vocabulary projection, its softmax and dh are
// computed tile by tile of tokens inside F, so fp32 logits exist for one tile only. In bf16 dlogits
// are kept for W; in fp32 W projects each tile again. Each tp rank has rows of the vocabulary, in
// slices; the loss is the same on all. Legend: T tokens (on the residual stream this rank's part of
// them; "full": all, where that differs), t tokens of one tile, C d_model, V rows of the
// vocabulary, R slices of all ranks.
class LossBody final : public OpBody {
 public:
  explicit LossBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  // The tensors of one call.
  struct Tensors {
    MatrixRef h_TC, h_full_TC, dh_full_TC, dh_TC;
    MatrixRef dlogits_TV;  // absent: projected again in W
    TensorRef targets_T, loss_T;
    TensorRef max_T, sum_T;        // of the softmax, over all ranks
    MatrixRef logits_tile_tV;      // fp32 scratch
    TensorRef part_3t, parts_3Rt;  // fp32 scratch: what the slices say of a tile's softmax
    MatrixRef dlogits_tile_tV;     // scratch of a frozen head; absent: dlogits lie elsewhere
  };
  Tensors tensors_of(const SlotMemory& m) const;
  // This rank's rows of the vocabulary in a slice.
  struct Rows {
    int64_t begin, count;
  };
  Rows rows_of_slice(int slice) const;
  void gather(Ctx& ctx, const Tensors& s) const;
  // The rows [begin, begin + count): a tile.
  MatrixRef project_tile(Ctx& ctx, const Tensors& s, int64_t begin, int64_t count) const;
  // `hit_T` may be absent. It receives the hits of the tile's rows (CrossEntropyArgs::hit_T).
  void loss_of_tile(Ctx& ctx, const Tensors& s, int64_t begin, MatrixRef logits_tV,
                    const TensorRef& hit_T) const;
  void gradient_of_tile(Ctx& ctx, const Tensors& s, int64_t begin, MatrixRef logits_tV,
                        MatrixRef dlogits_tV) const;
  void input_gradient_of_tile(Ctx& ctx, MatrixRef dlogits_tV, MatrixRef dh_tC) const;

  ModelShard model_;
  MatrixRef weight_VC_;
  TensorRef bias_V_;  // absent: none
  SliceSum over_slices_;
  std::optional<EdgeChange> enter_;
  MatrixAt h_TC_, h_full_TC_, dh_full_TC_, dh_TC_, dlogits_TV_, dlogits_tile_tV_;
  MatrixAt logits_tile_tV_;
  TensorAt targets_T_, loss_T_, max_T_, sum_T_, part_3t_, parts_3Rt_;
  MatrixAt dweight_VC_;
  TensorAt dbias_V_;
  bool adds_to_grad_;  // another loss has written the gradient of the head's weight
  float grad_scale_;   // factor of this loss in the sum that is trained
};

}  // namespace trireme
