#pragma once

#include <memory>
#include <type_traits>

#include "graph/model_shard.h"
#include "nn/ctx.h"
#include "tensor/matrix.h"

namespace trireme {

// A borrowed callable that multiplies rows [begin, begin + count) of all tokens; it lives as long
// as the call that takes it.
class MultiplyRows {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<F, MultiplyRows>>>
  MultiplyRows(const F& f)  // NOLINT: implicit by design
      : object_(std::addressof(f)), call_([](const void* object, int64_t begin, int64_t count) {
          (*static_cast<const F*>(object))(begin, count);
        }) {}
  void operator()(int64_t begin, int64_t count) const { call_(object_, begin, count); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t);
};

// How tokens cross the edges of a block whose layers the tp ranks share, beside the matmul that
// reads or makes them. Whole, one after the other; or in pieces (tp_overlap): while some rows are
// multiplied, others are on their way, on the communication thread. A row's product is the same
// either way; a sum over ranks goes round the ring from the rank behind its owner to the owner.
struct BlockEdge {
  Placement residual;
  bool in_pieces = false;
  MatrixRef sum_RC;  // scratch; absent where parts do not lie on several ranks

  // full = x as enter_block says, or the backward of leave_block; then all rows of it.
  void gather_and_multiply(Ctx& ctx, const Redistribution& change, const MatrixRef& x_TC,
                           const MatrixRef& full_TC, const MultiplyRows& multiply) const;
  // All rows of `partial`; then y = their sum as leave_block says, or the backward of enter_block.
  void multiply_and_sum(Ctx& ctx, const Redistribution& change, const MultiplyRows& multiply,
                        const MatrixRef& partial_TC, const MatrixRef& y_TC) const;

 private:
  void gather_round(Ctx& ctx, const MatrixRef& x_TC, const MatrixRef& full_TC,
                    const MultiplyRows& multiply) const;
  void sum_round(Ctx& ctx, const MultiplyRows& multiply, const MatrixRef& partial_TC,
                 const MatrixRef& y_TC) const;
};

}  // namespace trireme
