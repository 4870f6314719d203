#include "nn/route_body.h"

#include "graph/op_placement.h"
#include "nn/linear.h"
#include "nn/product.h"

namespace trireme {
namespace {

RouterScore score_of(RouterType router) {
  return router == RouterType::Softmax ? RouterScore::Softmax : RouterScore::Sigmoid;
}

EarlierVisits earlier_visits_of(const OpBinding& b) {
  if (!counts_earlier_visits(b.model(), b.shape())) return {};
  const Frame scratch = b.scratch();
  return {matrix(scratch.at("visits.count_KE")), matrix(scratch.at("visits.before_cE"))};
}

}  // namespace

RouteBody::RouteBody(const OpBinding& b)
    : model_(b.model()),
      weight_EC_(b.weight()),
      bias_E_(b.vector()),
      earlier_(earlier_visits_of(b)),
      route_(RouteAt::bind(b)),
      x_TC_(b.input()),
      dx_TC_(b.input_grad()),
      dx_addend_TC_(b.input_grad_addend()),
      dlogits_TE_(b.matrix_of_module("route.dlogits_TE")),
      dweight_A_(weight_grads_by_token(b)),
      dweight_EC_(b.weight_grad()),
      dbias_E_(b.vector_grad()) {}

void RouteBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const Route r = route_(m);
  multiply(ctx, {.form = MatmulForm::NT, .a = m(x_TC_), .b = weight_EC_, .c = r.score_TE});
  ctx.kernels.route(ctx.stream, {.score = score_of(model_.router),
                                 .groups = model_.expert_groups,
                                 .top_groups = model_.top_groups,
                                 .score_TE = r.score_TE,
                                 .bias_E = bias_E_,
                                 .lse_T = r.lse_T,
                                 .expert_Tk = r.expert_Tk,
                                 .weight_Tk = r.weight_Tk,
                                 .is_chosen = info.is_routed,
                                 .scale = static_cast<float>(model_.routed_scaling)});
  earlier_.count(ctx, model_.chunks, r.expert_Tk);
  ctx.kernels.sort_visits(ctx.stream, {.expert_Tk = r.expert_Tk,
                                       .weight_Tk = r.weight_Tk,
                                       .capacity = model_.taken_by_expert(r.expert_Tk.rows),
                                       .row_Tk = r.row_Tk,
                                       .token_A = r.token_A,
                                       .weight_A = r.weight_A,
                                       .begin_E = r.begin_E,
                                       .count_nE = r.count_nE,
                                       .load_E = r.load_E,
                                       .before_cE = earlier_.before_cE});
  // Balance is judged by whole sequences, of which every rank of cp has a part.
  const TensorRef count_nE{r.count_nE.data, DType::I32, Shape{r.count_nE.rows, r.count_nE.cols}};
  ctx.cp.run({.in = count_nE, .out = count_nE, .is_short = true});
  r.exchange().tell_counts(ctx);
  r.exchange().dispatch(ctx, as_column(r.weight_A), as_column(r.weight_R));
}

// Each tp rank has an addend of the weights' gradients; the gradients of the router's own losses
// are computed by one rank.
void RouteBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const Route r = route_(m);
  const bool has_losses = ctx.tp.rank() == 0;
  // aux_loss * E sum_e(f_e P_e) of a sequence, where f_e is e's part of its visits and P_e e's mean
  // part of its tokens' scores, counts as much as one token's loss for each of its tokens.
  const double visits = double(model_.seq_len) * double(model_.top_k);
  const double balance = ctx.loss_scale * model_.aux_loss * double(model_.experts) / visits;
  const double z = ctx.loss_scale * model_.z_loss;
  ctx.kernels.route_backward(ctx.stream,
                             {.score = score_of(model_.router),
                              .score_TE = r.score_TE,
                              .expert_Tk = r.expert_Tk,
                              .weight_Tk = r.weight_Tk,
                              .lse_T = r.lse_T,
                              .row_Tk = r.row_Tk,
                              .dweight_A = m(dweight_A_),
                              .count_nE = r.count_nE,
                              .balance = has_losses ? static_cast<float>(balance) : 0.0f,
                              .z = has_losses ? static_cast<float>(z) : 0.0f,
                              .dlogits_TE = m(dlogits_TE_),
                              .scale = static_cast<float>(model_.routed_scaling)});
  multiply(ctx, {.form = MatmulForm::NN,
                 .a = m(dlogits_TE_),
                 .b = weight_EC_,
                 .c = m(dx_TC_),
                 .residual_MN = m(dx_addend_TC_)});
}

void RouteBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                Write write) const {
  if (dweight_EC_) {
    Linear::backward_weight(ctx, m(dlogits_TE_), m(x_TC_), m(dweight_EC_), write);
  }
  if (dbias_E_) count_visits(route_(m), m(dbias_E_).as<float>(), write);
}

// The bias is balanced by the load of every expert, which stands in the place of its gradient.
void RouteBody::count_visits(const Route& route, float* sum_E, Write write) const {
  const int32_t* load_E = route.load_E.as<int32_t>();
  for (int64_t e = 0; e < model_.experts; ++e) {
    sum_E[e] = (write == Write::Accumulate ? sum_E[e] : 0.0f) + float(load_E[e]);
  }
}

}  // namespace trireme
