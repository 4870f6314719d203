#pragma once

#include "nn/adapter.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/residual.h"

namespace trireme {

// y = x w^T + b, and what adapters add, with all that `fuse` has joined to it: x may come from the
// residual stream (enter), y may be an addend of what goes back to it (addend, residual, leave,
// dropout). Each tp rank has some of the columns of x or of y. Legend: T tokens, C columns of x, F
// columns of y; "full": all tokens, where the residual stream has a part of them.
class LinearBody final : public OpBody {
 public:
  explicit LinearBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  void multiply(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m, int64_t begin,
                int64_t count) const;
  void multiply_addends(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m, int64_t begin,
                        int64_t count) const;

  ModelShard model_;
  Linear linear_;
  Adapters adapters_;
  SumOnResidual sum_;  // what becomes of y
  std::optional<EdgeChange> enter_;
  BlockEdge enter_edge_;
  bool is_summed_;       // y is an addend of a sum over ranks; one of them adds the bias
  bool adds_to_output_;  // y has another addend of the sum already
  bool reads_x_again_;   // for gradients of weights
  MatrixAt x_TC_, x_full_TC_, y_TF_;
  MatrixAt dy_TF_, dx_TC_, dx_addend_TC_, dx_full_TC_;
  std::vector<MatrixGradPart> dw_;
  std::vector<VectorGradPart> db_;
};

}  // namespace trireme
