#include "nn/mlp.h"

#include "nn/residual.h"

namespace trireme {
namespace {

Activation activation_of(MlpType mlp) {
  switch (mlp) {
    case MlpType::GeluErf:
      return Activation::GeluErf;
    case MlpType::Relu:
      return Activation::Relu;
    default:
      return Activation::GeluTanh;
  }
}

}  // namespace

MlpBlock::Params MlpBlock::Params::bind(const ModelShard& model, const Frame& frame,
                                        const std::string& layer) {
  const bool gated = model.mlp == MlpType::Swiglu;
  return {Norm::bind_params(frame, layer + "norm2"),
          {frame.stacked_rows(layer + (gated ? "mlp.w_gate" : "mlp.w_up"), model.up_width()),
           frame.stacked(layer + (gated ? "mlp.b_gate" : "mlp.b_up"), model.up_width())},
          {matrix(frame.at(layer + "mlp.w_down")), frame.find(layer + "mlp.b_down")}};
}

MlpBlock MlpBlock::bind(const ModelShard& model, const Frame& params, const std::string& layer,
                        uint64_t seed, const SumScratch& sums) {
  const Params bound = Params::bind(model, params, layer);
  return {model,
          Norm::bind(model, params, layer + "norm2"),
          {bound.up, {}, sums.over_slices, model.up_blocks()},
          {bound.down, sums.over_slices},
          rng_key(seed, layer + "mlp.residual_dropout"),
          BlockEdge::bind(model, sums.edge_RC)};
}

void MlpBlock::activate(Ctx& ctx, MatrixRef u_TU, MatrixRef a_TF) const {
  if (model.mlp == MlpType::Swiglu) {
    ctx.kernels.swiglu_forward(
        ctx.stream, {cols_of(u_TU, 0, model.d_ff), cols_of(u_TU, model.d_ff, model.d_ff), a_TF});
  } else {
    ctx.kernels.activation_forward(ctx.stream, {activation_of(model.mlp), u_TU, a_TF});
  }
}

void MlpBlock::activate_backward(Ctx& ctx, MatrixRef da_TF, MatrixRef u_TU, MatrixRef du_TU) const {
  if (model.mlp == MlpType::Swiglu) {
    ctx.kernels.swiglu_backward(
        ctx.stream, {da_TF, cols_of(u_TU, 0, model.d_ff), cols_of(u_TU, model.d_ff, model.d_ff),
                     cols_of(du_TU, 0, model.d_ff), cols_of(du_TU, model.d_ff, model.d_ff)});
  } else {
    ctx.kernels.activation_backward(ctx.stream, {activation_of(model.mlp), da_TF, u_TU, du_TU});
  }
}

void MlpBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  recompute_all(ctx, s);
  project_onto_residual(ctx, info, down, residual_dropout_key, model, edge, s.a_TF, s.x1_TC,
                        s.partial_TC, s.y_TC);
}

void MlpBlock::gather(Ctx& ctx, const Saved& s) const {
  redistribute_tokens(ctx, enter_block(model.residual), s.h_full_TC.rows, s.h_TC, s.h_full_TC);
}

void MlpBlock::recompute_all(Ctx& ctx, const Saved& s) const {
  norm.forward(ctx, s.x1_TC, s.h_TC, s.norm);
  edge.gather_and_multiply(ctx, enter_block(model.residual), s.h_TC, s.h_full_TC,
                           [&](int64_t begin, int64_t count) {
                             up.forward_rows(ctx, s.h_full_TC, s.u_TU, begin, count);
                           });
  activate(ctx, s.u_TU, s.a_TF);
}

void MlpBlock::recompute_norm_and_activation(Ctx& ctx, const Saved& s) const {
  norm.forward(ctx, s.x1_TC, s.h_TC, s.norm);
  activate(ctx, s.u_TU, s.a_TF);
}

void MlpBlock::backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& s,
                              const Grads& g) const {
  residual_dropout_backward(ctx, info, residual_dropout_key, model, edge, g.dy_TC, g.dp_TC,
                            g.dp_full_TC, [&](int64_t begin, int64_t count) {
                              down.backward_input_rows(ctx, g.dp_full_TC, g.da_TF, begin, count);
                            });
  activate_backward(ctx, g.da_TF, s.u_TU, g.du_TU);
  edge.multiply_and_sum(
      ctx, backward_of(enter_block(model.residual)),
      [&](int64_t begin, int64_t count) {
        up.backward_input_rows(ctx, g.du_TU, g.dh_full_TC, begin, count);
      },
      g.dh_full_TC, g.dh_TC);
  norm.backward_input(ctx, g.dh_TC, s.x1_TC, s.norm, g.dy_TC, g.dx1_TC);
}

void MlpBlock::backward_weight(Ctx& ctx, const Saved& s, const Grads& g, const Params& dparams,
                               Write write) const {
  Linear::backward_weight(ctx, g.dp_full_TC, s.a_TF, dparams.down, write);
  gather(ctx, s);
  Linear::backward_weight(ctx, g.du_TU, s.h_full_TC, dparams.up, write);
  norm.backward_weight(ctx, g.dh_TC, s.x1_TC, s.norm, dparams.norm, write);
}

}  // namespace trireme
