#include "nn/expert_bodies.h"

#include "graph/op_placement.h"

namespace trireme {
namespace {

// Rows in the order of this rank's tokens. Where it has all experts they are those by expert.
MatrixAt rows_by_token(const OpBinding& b, const MatrixAt& rows_by_expert) {
  const bool stay = expert_strategy(b.shape()) == ExpertStrategy::AllExperts;
  return stay ? rows_by_expert : b.matrix_of("exchange.sent_AC");
}

}  // namespace

DispatchBody::DispatchBody(const OpBinding& b)
    : route_(RouteAt::bind(b)),
      x_TC_(b.input()),
      y_RC_(b.at(b.memory().outputs.front())),
      dy_RC_(b.at(b.memory().output_grads.front())),
      dx_TC_(b.input_grad()),
      dx_addend_TC_(b.input_grad_addend()),
      sent_AC_(rows_by_token(b, y_RC_)),
      dback_AC_(rows_by_token(b, dy_RC_)),
      dweight_R_(b.of_module("route.dweight_R")),
      dweight_A_(weight_grads_by_token(b)) {}

void DispatchBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const Route r = route_(m);
  ctx.kernels.gather_rows(ctx.stream, {m(x_TC_), r.token_A, r.begin_E, m(sent_AC_)});
  r.exchange().dispatch(ctx, m(sent_AC_), m(y_RC_));
}

// The few numbers go first: behind the rows they would wait for what another action, which has
// taken the turn meanwhile, has started on the same link. If a rank waited for them alone, it would
// also wait until the slower rank has come to this call.
void DispatchBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const Route r = route_(m);
  r.exchange().give_back_before_rows(ctx, m(dweight_R_), m(dweight_A_));
  r.exchange().give_back(ctx, m(dy_RC_), m(dback_AC_));
  ctx.kernels.combine_rows(ctx.stream, {m(dback_AC_), r.row_Tk, m(dx_addend_TC_), m(dx_TC_)});
}

GroupedLinearBody::GroupedLinearBody(const OpBinding& b)
    : ranks_(b.model().ep),
      begin_R_(RouteAt::bind(b).begin_R),
      x_RI_(b.input()),
      y_RO_(b.output()),
      dy_RO_(b.output_grad()),
      dx_RI_(b.input_grad()) {
  const int64_t first = b.model().first_expert, end = first + b.model().held_experts;
  std::vector<MatrixRef> weight_H;
  for (const ParamId id : b.op().params) {
    const Param& param = b.graph().params[size_t(id)];
    if (param.adjoins_previous || param.expert < first || param.expert >= end) continue;
    for (const MatrixGradPart& part : b.matrix_grad_parts(id)) add_grad(held_, part);
    weight_H.push_back(b.weight(id));
    ++held_;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    weight_E_.insert(weight_E_.end(), weight_H.begin(), weight_H.end());
  }
  dweight_refs_H_.resize(size_t(held_));
}

void GroupedLinearBody::add_grad(int64_t expert, const MatrixGradPart& part) {
  const auto continues = [&](const Trained& last) {
    return last.first + int64_t(last.dweight_H.size()) == expert && last.column == part.row &&
           last.dweight_H.front().rows == part.grad.rows;
  };
  if (trained_.empty() || !continues(trained_.back())) trained_.push_back({expert, part.row, {}});
  trained_.back().dweight_H.push_back(part.grad);
}

void GroupedLinearBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.grouped_matmul(ctx.stream,
                             {MatmulForm::NT, m(x_RI_), m(y_RO_), weight_E_, m(begin_R_)});
}

void GroupedLinearBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.grouped_matmul(ctx.stream,
                             {MatmulForm::NN, m(dy_RO_), m(dx_RI_), weight_E_, m(begin_R_)});
}

void GroupedLinearBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                        Write write) const {
  for (const Trained& trained : trained_) {
    const int64_t count = int64_t(trained.dweight_H.size());
    const std::span<MatrixRef> dweight_H = std::span(dweight_refs_H_).first(size_t(count));
    for (int64_t h = 0; h < count; ++h) dweight_H[size_t(h)] = m(trained.dweight_H[size_t(h)]);
    const MatrixRef dy = cols_of(m(dy_RO_), trained.column, dweight_H.front().rows);
    // The visits of one rank's tokens after those of another's.
    for (int rank = 0; rank < ranks_; ++rank) {
      int32_t* begin = m(begin_R_).as<int32_t>() + rank * held_ + trained.first;
      ctx.kernels.grouped_matmul(ctx.stream, {MatmulForm::TN, dy, m(x_RI_), dweight_H,
                                              TensorRef{begin, DType::I32, Shape{count + 1}},
                                              rank == 0 ? write : Write::Accumulate});
    }
  }
}

CombineBody::CombineBody(const OpBinding& b)
    : model_(b.model()),
      route_(RouteAt::bind(b)),
      sum_(SumOnResidual::bind(b)),
      adds_to_output_(b.op().addend >= 0),
      x_RC_(b.input()),
      dx_RC_(b.input_grad()),
      back_AC_(rows_by_token(b, x_RC_)),
      dsent_AC_(rows_by_token(b, dx_RC_)) {}

void CombineBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const Route r = route_(m);
  r.exchange().give_back(ctx, m(x_RC_), m(back_AC_));
  sum_.forward(ctx, info, m, [&](int64_t, int64_t) {
    const MatrixRef y_TC = m(sum_.partial_TC), residual_TC = sum_.residual(info, m);
    const TokenRows own = own_tokens(ctx.tp, model_.residual, y_TC.rows);
    const auto add_up = [&](int64_t begin, int64_t count, bool is_own) {
      if (count == 0) return;
      const MatrixRef y = rows_of(y_TC, begin, count);
      MatrixRef addend = adds_to_output_ ? y : MatrixRef{};
      if (is_own && residual_TC) addend = residual_TC;
      ctx.kernels.combine_rows(ctx.stream,
                               {m(back_AC_), rows_of(r.row_Tk, begin, count), addend, y});
    };
    add_up(0, own.begin, false);
    add_up(own.begin, own.count, true);
    add_up(own.end(), y_TC.rows - own.end(), false);
  });
}

void CombineBody::backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const Route r = route_(m);
  sum_.backward(ctx, info, m, [&](int64_t, int64_t) {
    ctx.kernels.gather_rows(ctx.stream, {m(sum_.dp_full_TC), r.token_A, r.begin_E, m(dsent_AC_)});
    r.exchange().dispatch(ctx, m(dsent_AC_), m(dx_RC_));
  });
}

}  // namespace trireme
