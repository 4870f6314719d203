#pragma once

#include <optional>

#include "graph/axis_part.h"
#include "graph/model_shard.h"
#include "nn/block_edge.h"
#include "nn/linear.h"
#include "nn/op_binding.h"

namespace trireme {

// Legend: T tokens of the micro-batch; on the residual stream, this rank's part of them.

// y = x as enter_block, leave_block or their backward say. Where they leave the values as they are,
// x and y are the same memory.
void redistribute_tokens(Ctx& ctx, const Redistribution& change, int64_t num_tokens, MatrixRef x_TC,
                         MatrixRef y_TC, CallSite site = CallSite::current());

// The tokens that are this rank's alone when the residual stream becomes addends of a sum.
struct TokenRows {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t end() const { return begin + count; }
};
TokenRows own_tokens(const Group& tp, Placement residual, int64_t num_tokens);

inline bool drops_residual(const ModelSpec& model, const MicrobatchInfo& info) {
  return model.dropout > 0.0 && info.training;
}

// y = dropout(x) + residual on this rank's part of the features, which may be some rows (`over_tp`)
// or some columns. The numbers of rows and columns in the whole say what is dropped.
void drop_features(Ctx& ctx, const MicrobatchInfo& info, RngKey key, const ModelShard& model,
                   Placement over_tp, const AxisPart& columns, MatrixRef x_TC,
                   MatrixRef residual_TC, MatrixRef y_TC);

// How the addends of a sum over tp go back to the residual stream and its gradient comes from there
// (Op::leave, Op::dropout, Op::late_residual). Where nothing leaves, `partial` is the output, and
// its gradient is given.
struct SumOnResidual {
  ModelShard model;
  std::optional<EdgeChange> leave;
  BlockEdge edge;
  std::optional<RngKey> dropout_key;  // absent: nothing is dropped
  MatrixAt early_residual_TC, late_residual_TC;
  MatrixAt partial_TC, y_TC;
  MatrixAt dy_TC, dp_TC, dp_full_TC;  // p: what is dropped

  static SumOnResidual bind(const OpBinding& b);

  bool drops(const MicrobatchInfo& info) const { return dropout_key && info.training; }
  // Needs a dropout_key.
  void drop(Ctx& ctx, const MicrobatchInfo& info, MatrixRef x_TC, MatrixRef residual_TC,
            MatrixRef y_TC) const;
  // The residual that is added to the rank's own rows of the sum.
  MatrixRef residual(const MicrobatchInfo& info, const SlotMemory& m) const {
    return drops(info) ? MatrixRef{} : m(early_residual_TC);
  }
  // `multiply` writes rows of `partial`; then y = their sum over the ranks; with dropout, y =
  // residual + dropout(that).
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
               const MultiplyRows& multiply) const;
  // dp = dropout's gradient of dy, full = dp of all tokens, whose rows are then multiplied. Without
  // dropout dp is dy itself and nothing is done; the same holds for full.
  void backward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                const MultiplyRows& multiply) const;
};

}  // namespace trireme
