#pragma once

#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/residual.h"

namespace trireme {

// e = dropout(table[token] + positions); positions and dropout where the model has them. Each tp
// rank has rows of the table. Legend: T tokens, C d_model, V rows of the table, S seq_len.
class LookupBody final : public OpBody {
 public:
  explicit LookupBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  ModelShard model_;
  MatrixRef table_VC_;
  MatrixRef positions_SC_;  // absent with rotary positions
  SumOnResidual sum_;
  TensorAt tokens_T_;
  MatrixAt dtable_VC_, dpositions_SC_;
  bool adds_to_table_grad_;  // another use of the table has written its gradient
};

}  // namespace trireme
