#pragma once

#include "nn/adapter.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/query_window.h"

namespace trireme {

// Attention of the next tokens of sequences, each over its cache of latents. Beside each latent,
// the cache has the part of the keys with positions. The latents and positions of the next tokens
// are put into it first. For a head h with the products K_h and V_h of the latent c, q (K_h c) = (q
// K_h) c and the sum of p (V_h c) is V_h (the sum of p c): so it is attention with one key (c,
// rope) and one value c for all heads, and no key or value of a head is ever made. Forward only.
// Legend: R width of the latent, P of the part with positions, t tokens of a tile.
class CachedLatentAttention final : public OpBody {
 public:
  // cache_NX: latent and positions of every token of one sequence after the other, X = R + P;
  // borrowed.
  CachedLatentAttention(const OpBinding& b, const MatrixRef& cache_NX);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  void fill_cache(Ctx& ctx, const SlotMemory& m, const CachedRows& rows) const;
  // Writes the attended latents of `rows` to latents_tX. Row 0 of queries_tX and latents_tX is
  // rows.first_row.
  void attend(Ctx& ctx, const CachedRows& rows, const TensorRef& first_T,
              const MatrixRef& queries_tX, const MatrixRef& latents_tX) const;
  void make_queries(Ctx& ctx, const SlotMemory& m, const MatrixRef& q_TQ,
                    const MatrixRef& queries_tX) const;
  void make_outputs(Ctx& ctx, const SlotMemory& m, const MatrixRef& latents_tX,
                    const MatrixRef& o_TV) const;

  ModelShard model_;
  QueryWindow window_;
  MatrixRef keys_up_, values_up_;  // [heads x width of a head, R]
  HeadAdapter keys_adapter_, values_adapter_;
  MatrixAt q_TQ_, latent_TR_, shared_TP_, o_TV_;
  MatrixAt queries_tX_, latents_tX_;
  MatrixRef cache_NX_;
};

}  // namespace trireme
