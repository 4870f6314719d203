#include "nn/moe.h"

#include <fmt/format.h>

#include "nn/residual.h"

namespace trireme {
namespace {

RouterScore score_of(RouterType router) {
  return router == RouterType::Softmax ? RouterScore::Softmax : RouterScore::Sigmoid;
}

}  // namespace

MoeBlock::Params MoeBlock::Params::bind(const ModelShard& model, const Frame& frame,
                                        const std::string& layer) {
  const std::string mlp = layer + "mlp.";
  Params params{Norm::bind_params(frame, layer + "norm2"), matrix(frame.at(mlp + "router")),
                frame.find(mlp + "router_bias")};
  for (int64_t i = 0; i < model.held_experts; ++i) {
    const std::string name = fmt::format("{}experts.{}.", mlp, model.first_expert + i);
    params.up_H.push_back(frame.stacked_rows(name + "w_gate", model.up_width()));
    params.down_H.push_back(matrix(frame.at(name + "w_down")));
  }
  if (model.shared_experts > 0) {
    params.shared_up.w_FC = frame.stacked_rows(mlp + "shared.w_gate", 2 * model.shared_width());
    params.shared_down.w_FC = matrix(frame.at(mlp + "shared.w_down"));
  }
  return params;
}

MoeBlock MoeBlock::bind(const ModelShard& model, const Frame& params, const std::string& layer,
                        uint64_t seed) {
  MoeBlock block{model, Norm::bind(model, params, layer + "norm2"),
                 Params::bind(model, params, layer), rng_key(seed, layer + "mlp.residual_dropout")};
  for (int rank = 0; rank < model.ep; ++rank) {
    const Params& own = block.params;
    block.up_E.insert(block.up_E.end(), own.up_H.begin(), own.up_H.end());
    block.down_E.insert(block.down_E.end(), own.down_H.begin(), own.down_H.end());
  }
  return block;
}

void MoeBlock::gather(Ctx& ctx, const Saved& s) const {
  redistribute_tokens(ctx, enter_block(model.residual), s.mlp.h_full_TC.rows, s.mlp.h_TC,
                      s.mlp.h_full_TC);
}

void MoeBlock::route(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  const Route& r = s.route;
  ctx.kernels.matmul(
      ctx.stream,
      {.form = MatmulForm::NT, .a = s.mlp.h_full_TC, .b = params.router_EC, .c = r.score_TE});
  ctx.kernels.route(ctx.stream, {.score = score_of(model.router),
                                 .groups = model.expert_groups,
                                 .top_groups = model.top_groups,
                                 .score_TE = r.score_TE,
                                 .bias_E = params.bias_E,
                                 .lse_T = r.lse_T,
                                 .expert_Tk = r.expert_Tk,
                                 .weight_Tk = r.weight_Tk,
                                 .is_chosen = info.is_routed});
  s.earlier.count(ctx, model.chunks, r.expert_Tk);
  ctx.kernels.sort_visits(ctx.stream, {.expert_Tk = r.expert_Tk,
                                       .weight_Tk = r.weight_Tk,
                                       .capacity = model.taken_by_expert(r.expert_Tk.rows),
                                       .row_Tk = r.row_Tk,
                                       .token_A = r.token_A,
                                       .weight_A = r.weight_A,
                                       .begin_E = r.begin_E,
                                       .count_nE = r.count_nE,
                                       .load_E = r.load_E,
                                       .before_cE = s.earlier.before_cE});
  // Balance is judged by whole sequences.
  ctx.cp.all_reduce({r.count_nE.data, DType::I32, Shape{r.count_nE.rows, r.count_nE.cols}});
  s.exchange.tell_counts(ctx);
  s.exchange.dispatch(ctx, as_column(r.weight_A), as_column(s.weight_R));
}

void MoeBlock::dispatch(Ctx& ctx, const Saved& s) const {
  ctx.kernels.gather_rows(ctx.stream,
                          {s.mlp.h_full_TC, s.route.token_A, s.route.begin_E, s.out_AC});
  s.exchange.dispatch(ctx, s.out_AC, s.x_RC);
}

void MoeBlock::activate(Ctx& ctx, const Saved& s) const {
  ctx.kernels.expert_activation(ctx.stream, {s.u_RU, s.weight_R, s.exchange.begin_R, s.a_RF});
  if (model.shared_experts == 0) return;
  const int64_t F = model.shared_width();
  ctx.kernels.swiglu_forward(ctx.stream,
                             {cols_of(s.mlp.u_TU, 0, F), cols_of(s.mlp.u_TU, F, F), s.mlp.a_TF});
}

void MoeBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  norm.forward(ctx, s.mlp.x1_TC, s.mlp.h_TC, s.mlp.norm);
  gather(ctx, s);
  route(ctx, info, s);
  dispatch(ctx, s);
  enter_experts(ctx, s);
  activate(ctx, s);
  combine(ctx, info, s);
}

void MoeBlock::enter_experts(Ctx& ctx, const Saved& s) const {
  ctx.kernels.grouped_matmul(ctx.stream,
                             {MatmulForm::NT, s.x_RC, s.u_RU, up_E, s.exchange.begin_R});
  if (model.shared_experts > 0) {
    Linear{params.shared_up}.forward(ctx, s.mlp.h_full_TC, s.mlp.u_TU);
  }
}

void MoeBlock::recompute_all(Ctx& ctx, const Saved& s) const {
  norm.forward(ctx, s.mlp.x1_TC, s.mlp.h_TC, s.mlp.norm);
  gather(ctx, s);
  dispatch(ctx, s);
  enter_experts(ctx, s);
  activate(ctx, s);
}

void MoeBlock::recompute_norm_and_activation(Ctx& ctx, const Saved& s) const {
  norm.forward(ctx, s.mlp.x1_TC, s.mlp.h_TC, s.mlp.norm);
  activate(ctx, s);
}

// The residual is an addend of the tokens that are this rank's alone; what shared and routed
// experts give is an addend of all.
void MoeBlock::combine(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  ctx.kernels.grouped_matmul(ctx.stream,
                             {MatmulForm::NT, s.a_RF, s.part_RC, down_E, s.exchange.begin_R});
  s.exchange.give_back(ctx, s.part_RC, s.back_AC);
  const int64_t T = s.mlp.partial_TC.rows;
  const TokenRows own = own_tokens(ctx.tp, model.residual, T);
  const auto add_up = [&](int64_t begin, int64_t count, bool is_own) {
    if (count == 0) return;
    const MatrixRef y = rows_of(s.mlp.partial_TC, begin, count);
    MatrixRef addend = is_own && !drops_residual(model, info) ? s.mlp.x1_TC : MatrixRef{};
    if (model.shared_experts > 0) {
      Linear{params.shared_down}.forward(ctx, rows_of(s.mlp.a_TF, begin, count), y, addend);
      addend = y;
    }
    ctx.kernels.combine_rows(ctx.stream,
                             {s.back_AC, rows_of(s.route.row_Tk, begin, count), addend, y});
  };
  add_up(0, own.begin, false);
  add_up(own.begin, own.count, true);
  add_up(own.end(), T - own.end(), false);
  leave_block_onto_residual(ctx, info, residual_dropout_key, model, s.mlp.x1_TC, s.mlp.partial_TC,
                            s.mlp.y_TC);
}

void MoeBlock::backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& s,
                              const Grads& g) const {
  residual_dropout_backward(ctx, info, residual_dropout_key, model, {model.residual}, g.mlp.dy_TC,
                            g.mlp.dp_TC, g.mlp.dp_full_TC,
                            [&](int64_t, int64_t) { backward_experts(ctx, s, g); });
  backward_route(ctx, s, g);
  backward_shared(ctx, s, g);
  redistribute_tokens(ctx, backward_of(enter_block(model.residual)), g.mlp.dh_full_TC.rows,
                      g.mlp.dh_full_TC, g.mlp.dh_TC);
  norm.backward_input(ctx, g.mlp.dh_TC, s.mlp.x1_TC, s.mlp.norm, g.mlp.dy_TC, g.mlp.dx1_TC);
}

void MoeBlock::backward_experts(Ctx& ctx, const Saved& s, const Grads& g) const {
  const Route& r = s.route;
  const TensorRef& begin_R = s.exchange.begin_R;
  ctx.kernels.gather_rows(ctx.stream, {g.mlp.dp_full_TC, r.token_A, r.begin_E, g.out_AC});
  s.exchange.dispatch(ctx, g.out_AC, g.dy_RC);
  ctx.kernels.grouped_matmul(ctx.stream, {MatmulForm::NN, g.dy_RC, g.da_RF, down_E, begin_R});
  ctx.kernels.expert_activation_backward(
      ctx.stream, {g.da_RF, s.u_RU, s.weight_R, begin_R, g.du_RU, g.dweight_R});
  ctx.kernels.grouped_matmul(ctx.stream, {MatmulForm::NN, g.du_RU, g.part_RC, up_E, begin_R});
  s.exchange.give_back(ctx, g.part_RC, g.back_AC);
  s.exchange.give_back(ctx, as_column(g.dweight_R), as_column(g.dweight_A));
  ctx.kernels.combine_rows(ctx.stream, {g.back_AC, r.row_Tk, {}, g.mlp.dh_full_TC});
}

// Each tp rank has an addend of the weights' gradients; those of the router's own losses are one
// rank's.
void MoeBlock::backward_route(Ctx& ctx, const Saved& s, const Grads& g) const {
  const Route& r = s.route;
  const bool has_losses = ctx.tp.rank() == 0;
  // aux_loss * E sum_e(f_e P_e) of a sequence, where f_e is e's part of its visits and P_e e's mean
  // part of its tokens' scores, counts as much as one token's loss for each of its tokens.
  const double visits = double(model.seq_len) * double(model.top_k);
  const double balance = ctx.loss_scale * model.aux_loss * double(model.experts) / visits;
  const double z = ctx.loss_scale * model.z_loss;
  ctx.kernels.route_backward(ctx.stream,
                             {.score = score_of(model.router),
                              .score_TE = r.score_TE,
                              .expert_Tk = r.expert_Tk,
                              .weight_Tk = r.weight_Tk,
                              .lse_T = r.lse_T,
                              .row_Tk = r.row_Tk,
                              .dweight_A = g.dweight_A,
                              .count_nE = r.count_nE,
                              .balance = has_losses ? static_cast<float>(balance) : 0.0f,
                              .z = has_losses ? static_cast<float>(z) : 0.0f,
                              .dlogits_TE = g.dlogits_TE});
  ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NN,
                                  .a = g.dlogits_TE,
                                  .b = params.router_EC,
                                  .c = g.mlp.dh_full_TC,
                                  .residual_MN = g.mlp.dh_full_TC});
}

void MoeBlock::backward_shared(Ctx& ctx, const Saved& s, const Grads& g) const {
  if (model.shared_experts == 0) return;
  const int64_t F = model.shared_width();
  Linear{params.shared_down}.backward_input(ctx, g.mlp.dp_full_TC, g.mlp.da_TF);
  ctx.kernels.swiglu_backward(ctx.stream,
                              {g.mlp.da_TF, cols_of(s.mlp.u_TU, 0, F), cols_of(s.mlp.u_TU, F, F),
                               cols_of(g.mlp.du_TU, 0, F), cols_of(g.mlp.du_TU, F, F)});
  ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NN,
                                  .a = g.mlp.du_TU,
                                  .b = params.shared_up.w_FC,
                                  .c = g.mlp.dh_full_TC,
                                  .residual_MN = g.mlp.dh_full_TC});
}

void MoeBlock::backward_weight(Ctx& ctx, const Saved& s, const Grads& g, const Params& dparams,
                               Write write) const {
  // One rank's visits after the other's.
  for (int rank = 0; rank < model.ep; ++rank) {
    const TensorRef begin_H{s.exchange.begin_R.as<int32_t>() + rank * model.held_experts,
                            DType::I32, Shape{model.held_experts + 1}};
    const Write own = rank == 0 ? write : Write::Accumulate;
    ctx.kernels.grouped_matmul(ctx.stream,
                               {MatmulForm::TN, g.dy_RC, s.a_RF, dparams.down_H, begin_H, own});
    ctx.kernels.grouped_matmul(ctx.stream,
                               {MatmulForm::TN, g.du_RU, s.x_RC, dparams.up_H, begin_H, own});
  }
  gather(ctx, s);
  Linear::backward_weight(ctx, g.dlogits_TE, s.mlp.h_full_TC, {dparams.router_EC, {}}, write);
  if (model.shared_experts > 0) {
    Linear::backward_weight(ctx, g.mlp.dp_full_TC, s.mlp.a_TF, dparams.shared_down, write);
    Linear::backward_weight(ctx, g.mlp.du_TU, s.mlp.h_full_TC, dparams.shared_up, write);
  }
  if (dparams.bias_E) {
    const int32_t* load_E = s.route.load_E.as<int32_t>();
    float* sum_E = dparams.bias_E.as<float>();
    for (int64_t e = 0; e < model.experts; ++e) {
      sum_E[e] = (write == Write::Accumulate ? sum_E[e] : 0.0f) + float(load_E[e]);
    }
  }
  norm.backward_weight(ctx, g.mlp.dh_TC, s.mlp.x1_TC, s.mlp.norm, dparams.norm, write);
}

}  // namespace trireme
