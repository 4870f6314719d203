#pragma once

#include "nn/ctx.h"
#include "nn/frame.h"

namespace trireme {

// Visits go to the ranks that have their experts, and come back. Each rank has as many neighbouring
// experts. Legend: E experts, A visits of this rank's tokens, by expert; R visits of this rank's
// experts, by rank of the token and then by expert; P ranks. Where one rank has all experts both
// are the same, lie in the same memory, and nothing moves.
struct ExpertExchange {
  TensorRef begin_E;    // int32 [E + 1]: of A
  TensorRef begin_R;    // int32 [E + 1]: of R, for every rank those of this rank's experts
  TensorRef taken_E;    // scratch, int32; absent with one rank
  TensorRef counts_2P;  // scratch, int64; likewise

  // Fills begin_R, once begin_E is known.
  void tell_counts(Ctx& ctx) const;
  void dispatch(Ctx& ctx, const MatrixRef& x_AC, const MatrixRef& y_RC) const;
  void give_back(Ctx& ctx, const MatrixRef& x_RC, const MatrixRef& y_AC) const;
  // Gives back one number of every visit. The numbers have arrived once give_back() has returned,
  // which must be the next exchange.
  void give_back_before_rows(Ctx& ctx, const TensorRef& x_R, const TensorRef& y_A) const;

 private:
  struct Rows {
    const TensorRef& begin_E;
    const MatrixRef& rows;
  };
  void move(Ctx& ctx, const Rows& from, const Rows& to, bool joins_next = false) const;
};

// One number of every visit.
inline MatrixRef as_column(const TensorRef& x_R) {
  return {x_R.data, x_R.dtype, x_R.num_elements(), 1, 1};
}

}  // namespace trireme
