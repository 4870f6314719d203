#pragma once

#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/query_window.h"

namespace trireme {

// Attention of the next tokens of several sequences. First the keys and values of these tokens are
// put into the cache. Then each sequence attends to its own part of the cache. Forward only.
class CachedAttention final : public OpBody {
 public:
  // cache_NX: keys, then values, of every position of one sequence after the other; borrowed.
  CachedAttention(const OpBinding& b, const MatrixRef& cache_NX);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  void attend(Ctx& ctx, const SlotMemory& m, const CachedRows& rows,
              const TensorRef& first_T) const;

  ModelShard model_;
  QueryWindow window_;
  MatrixAt q_TQ_, k_TK_, v_TK_, o_TQ_;
  MatrixRef cache_NX_;
};

}  // namespace trireme
