#include "nn/norm_body.h"

namespace trireme {

NormBody::NormBody(const OpBinding& b)
    : kind_(b.model().norm == NormType::LayerNorm ? NormKind::Layer : NormKind::Rms),
      eps_(static_cast<float>(b.model().norm_eps)),
      gain_C_(b.vector(".gain")),
      bias_C_(b.vector(".bias")),
      x_TC_(b.input()),
      y_TC_(b.output()),
      dy_TC_(b.output_grad()),
      dx_TC_(b.input_grad()),
      addend_TC_(b.input_grad_addend()),
      mean_T_(b.tensor(b.op().name + ".mean_T")),
      rstd_T_(b.tensor(b.op().name + ".rstd_T")),
      dgain_C_(b.vector_grad(".gain")),
      dbias_C_(b.vector_grad(".bias")) {}

void NormBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.norm_forward(
      ctx.stream, {kind_, eps_, m(x_TC_), gain_C_, bias_C_, m(y_TC_), m(mean_T_), m(rstd_T_)});
}

void NormBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.norm_backward_input(ctx.stream, {kind_, m(dy_TC_), m(x_TC_), gain_C_, m(mean_T_),
                                               m(rstd_T_), m(addend_TC_), m(dx_TC_)});
}

void NormBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                               Write write) const {
  ctx.kernels.norm_backward_weight(ctx.stream, {kind_, m(dy_TC_), m(x_TC_), m(mean_T_), m(rstd_T_),
                                                m(dgain_C_), m(dbias_C_), write});
}

}  // namespace trireme
