#include "nn/lookup_body.h"

#include "nn/positions.h"

namespace trireme {

LookupBody::LookupBody(const OpBinding& b)
    : model_(b.model()),
      table_VC_(b.weight(b.op().params.front())),
      sum_(SumOnResidual::bind(b)),
      tokens_T_(b.op().ahead > 0 ? b.tensor(ahead_prefix(b.op()) + "tokens_T") : b.tokens()),
      dtable_VC_(b.weight_grad(b.op().params.front())),
      adds_to_table_grad_(b.adds_to_grad(b.op().params.front())) {
  if (b.op().params.size() == 1) return;
  positions_SC_ = b.weight(b.op().params.back());
  dpositions_SC_ = b.weight_grad(b.op().params.back());
}

// One addend has the token's row; the first rank adds the positions.
void LookupBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  sum_.forward(ctx, info, m, [&](int64_t, int64_t) {
    ctx.kernels.embedding_forward(ctx.stream, {m(tokens_T_),
                                               table_VC_,
                                               ctx.tp.rank() == 0 ? positions_SC_ : MatrixRef{},
                                               model_.local_len(),
                                               m(sum_.partial_TC),
                                               {model_.first_token, model_.num_tokens},
                                               positions_of(model_.chunks),
                                               info.documents.position_T});
  });
}

// Nothing lies before the lookup; this brings the gradient to all tokens.
void LookupBody::backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  sum_.backward(ctx, info, m, [](int64_t, int64_t) {});
}

void LookupBody::backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                                 Write write) const {
  const MatrixRef dpositions_SC = m(dpositions_SC_);
  MatrixRef dtable_VC = m(dtable_VC_);
  if (!dtable_VC) {  // it is frozen
    dtable_VC = {nullptr, dpositions_SC.dtype, 0, dpositions_SC.cols, dpositions_SC.cols};
  }
  const Write table_write = adds_to_table_grad_ ? Write::Accumulate : write;
  if (dpositions_SC && write != table_write) {  // the positions have no other use
    ctx.kernels.zero(ctx.stream, {flat(dpositions_SC)});
  }
  ctx.kernels.embedding_backward(ctx.stream, {m(tokens_T_),
                                              m(sum_.dp_full_TC),
                                              dtable_VC,
                                              dpositions_SC,
                                              model_.local_len(),
                                              table_write,
                                              {model_.first_token, model_.num_tokens},
                                              positions_of(model_.chunks),
                                              info.documents.position_T});
}

}  // namespace trireme
