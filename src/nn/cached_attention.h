#pragma once

#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/query_window.h"

namespace trireme {

// Attention of a sequence's next tokens over a cache of the keys and values of all tokens so far,
// into which their own are put first. Forward only.
class CachedAttention final : public OpBody {
 public:
  // cache_SX: keys, then values, of every position; borrowed.
  CachedAttention(const OpBinding& b, const MatrixRef& cache_SX);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  ModelShard model_;
  QueryWindow window_;
  MatrixAt q_TQ_, k_TK_, v_TK_, o_TQ_;
  MatrixRef cache_SX_;
};

}  // namespace trireme
