#include "nn/norm_body.h"

#include "graph/axis_part.h"

namespace trireme {
namespace {

int64_t norms_of_token(const OpBinding& b) {
  const std::vector<Dim>& dims = b.output_value().dims;
  return dims.size() > 2 ? part_of(dims[1], b.model()).count : 1;
}

// Returns the columns of norm i.
MatrixRef part(const MatrixRef& x_TC, int64_t i, int64_t num_norms) {
  const int64_t cols = x_TC.cols / num_norms;
  return x_TC ? cols_of(x_TC, i * cols, cols) : MatrixRef{};
}

// A norm's statistics of all tokens lie together.
TensorRef part(const TensorRef& statistic, int64_t i, int64_t num_tokens) {
  if (!statistic) return {};
  return {statistic.as<float>() + i * num_tokens, statistic.dtype, Shape{num_tokens}};
}

}  // namespace

NormBody::NormBody(const OpBinding& b)
    : kind_(b.model().norm == NormType::LayerNorm ? NormKind::Layer : NormKind::Rms),
      num_norms_(norms_of_token(b)),
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
  const MatrixRef x_TC = m(x_TC_), y_TC = m(y_TC_);
  for (int64_t i = 0; i < num_norms_; ++i) {
    ctx.kernels.norm_forward(ctx.stream, {kind_, eps_, part(x_TC, i, num_norms_), gain_C_, bias_C_,
                                          part(y_TC, i, num_norms_), part(m(mean_T_), i, x_TC.rows),
                                          part(m(rstd_T_), i, x_TC.rows)});
  }
}

void NormBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef x_TC = m(x_TC_), dy_TC = m(dy_TC_), dx_TC = m(dx_TC_), addend = m(addend_TC_);
  for (int64_t i = 0; i < num_norms_; ++i) {
    ctx.kernels.norm_backward_input(
        ctx.stream, {kind_, part(dy_TC, i, num_norms_), part(x_TC, i, num_norms_), gain_C_,
                     part(m(mean_T_), i, x_TC.rows), part(m(rstd_T_), i, x_TC.rows),
                     part(addend, i, num_norms_), part(dx_TC, i, num_norms_)});
  }
}

void NormBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                               Write write) const {
  const MatrixRef x_TC = m(x_TC_), dy_TC = m(dy_TC_);
  for (int64_t i = 0; i < num_norms_; ++i) {
    ctx.kernels.norm_backward_weight(
        ctx.stream, {kind_, part(dy_TC, i, num_norms_), part(x_TC, i, num_norms_),
                     part(m(mean_T_), i, x_TC.rows), part(m(rstd_T_), i, x_TC.rows), m(dgain_C_),
                     m(dbias_C_), i == 0 ? write : Write::Accumulate});
  }
}

}  // namespace trireme
