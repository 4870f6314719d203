#pragma once

#include <span>

#include "base/box_elements.h"
#include "base/philox.h"
#include "nn/ctx.h"
#include "schema/logit_side.h"
#include "schema/model_spec.h"

namespace trireme {

// QK-clip (Kimi K2, 2025; docs/muon.md). If the largest attention logit of a head in a step is
// above the limit, the logits of this head are scaled down to it: the weights of its query and key
// are multiplied by factors whose product is limit / largest. If several heads share a key, it gets
// the square root of the smallest such product, and every query what is missing to its own. So a
// head within the limit keeps its logits. With latent attention, all heads share the part of the
// keys that has positions: it stays as it is, and the part of a query that meets it gets the whole
// product.
class QkClip {
 public:
  // `limit` 0: nothing is ever scaled.
  QkClip(double limit, const ModelSpec& model)
      : limit_(limit),
        heads_(model.heads),
        kv_heads_(model.kv_heads),
        width_(model.head_dim),
        shared_width_(model.qk_rope_head_dim) {}

  // The largest logits of one layer: [head].
  using Logits = std::span<const float>;
  // The factor of the query or key weights of a head, or of a kv head.
  float factor(LogitSide side, int64_t head, Logits max_H) const;
  // The factor of the part of a query that meets the part of the keys that all heads share.
  float factor_of_shared(int64_t head, Logits max_H) const;

  // A weight or bias of queries or keys: a box of the whole parameter, whose rows are heads x
  // head_dim. With latent attention, every head of the queries has qk_rope_head_dim rows more,
  // which are its last ones.
  struct Weights {
    LogitSide side = LogitSide::None;
    BoxElements box;
    int64_t first = 0;  // element of the box with which the tensors begin
    TensorRef master_N, param_N;
    RngKey key;  // of stochastic rounding, for a master in bf16
    uint64_t update = 0;
  };
  // Scales the rows of heads that are above the limit.
  void scale(Ctx& ctx, const Weights& weights, Logits max_H) const;

 private:
  float logit_factor(float largest) const;  // limit / largest, or 1 within the limit
  float smallest_logit_factor(int64_t kv_head, Logits max_H) const;

  double limit_;
  int64_t heads_, kv_heads_, width_, shared_width_;
};

}  // namespace trireme
