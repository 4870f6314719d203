#include "nn/elementwise_bodies.h"

#include <algorithm>

#include "base/check.h"
#include "graph/axis_part.h"
#include "nn/residual.h"

namespace trireme {
namespace {

Activation activation_of(MlpType mlp) {
  switch (mlp) {
    case MlpType::GeluErf:
      return Activation::GeluErf;
    case MlpType::Relu:
      return Activation::Relu;
    case MlpType::Relu2:
      return Activation::Relu2;
    default:
      return Activation::GeluTanh;
  }
}

// All columns of the tensor that `part` is a part of.
Stored side_by_side(Stored part) {
  part.column = 0;
  part.cols = part.stride;
  return part;
}

void copy_or_add(Ctx& ctx, const MatrixRef& x, const MatrixRef& addend, const MatrixRef& y) {
  if (addend) {
    ctx.kernels.sum(ctx.stream, {flat(addend), flat(x), flat(y)});
  } else {
    ctx.kernels.copy_matrix(ctx.stream, {x, y});
  }
}

}  // namespace

ActivationBody::ActivationBody(const OpBinding& b)
    : is_gated_(b.op().inputs.size() > 1),
      is_of_experts_(b.op().inputs.size() > 2),
      kind_(activation_of(b.model().mlp)),
      u_TU_(b.at(side_by_side(b.memory().inputs.front()))),
      x_TF_(b.input()),
      up_TF_(is_gated_ ? b.input(1) : MatrixAt{}),
      y_TF_(b.output()),
      dy_TF_(b.output_grad()),
      du_TU_(b.at(side_by_side(b.memory().input_grads.front().dest))),
      dx_TF_(b.input_grad()),
      dup_TF_(is_gated_ ? b.input_grad(1) : MatrixAt{}) {
  TRIREME_CHECK(!b.input_grad_addend(), "an activation's input has no other reader");
  if (!is_of_experts_) return;
  const TensorAt weight_R = b.of_module("route.weight_R"), begin_R = b.of_module("route.begin_R");
  weight_R_ = weight_R ? weight_R : b.of_module("route.weight_A");
  begin_R_ = begin_R ? begin_R : b.of_module("route.begin_E");
  dweight_R_ = b.of_module("route.dweight_R");
}

void ActivationBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  if (is_of_experts_) {
    ctx.kernels.expert_activation(ctx.stream, {m(u_TU_), m(weight_R_), m(begin_R_), m(y_TF_)});
  } else if (is_gated_) {
    ctx.kernels.swiglu_forward(ctx.stream, {m(x_TF_), m(up_TF_), m(y_TF_)});
  } else {
    ctx.kernels.activation_forward(ctx.stream, {kind_, m(x_TF_), m(y_TF_)});
  }
}

void ActivationBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  if (is_of_experts_) {
    ctx.kernels.expert_activation_backward(
        ctx.stream, {m(dy_TF_), m(u_TU_), m(weight_R_), m(begin_R_), m(du_TU_), m(dweight_R_)});
  } else if (is_gated_) {
    ctx.kernels.swiglu_backward(ctx.stream,
                                {m(dy_TF_), m(x_TF_), m(up_TF_), m(dx_TF_), m(dup_TF_)});
  } else {
    ctx.kernels.activation_backward(ctx.stream, {kind_, m(dy_TF_), m(x_TF_), m(dx_TF_)});
  }
}

namespace {

// Returns the columns from the turned part of the first head on. This part is the last of a head.
MatrixAt from_turned_part(MatrixAt x_TD, int64_t head_width, int64_t turned) {
  const int64_t before = head_width - turned;
  x_TD.offset += before * size_of(x_TD.dtype);
  x_TD.cols -= before;
  return x_TD;
}

}  // namespace

RopeBody::RopeBody(const OpBinding& b)
    : turned_(b.model().rope_dim()),
      head_width_(part_of(b.output_value().dims.back(), b.model()).count),
      seq_len_(b.model().local_len()),
      x_TD_(from_turned_part(b.output(), head_width_, turned_)),
      dx_TD_(from_turned_part(b.output_grad(), head_width_, turned_)),
      cos_SD_(b.tensor("rope.cos_SD")),
      sin_SD_(b.tensor("rope.sin_SD")) {}

void RopeBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  ctx.kernels.rope(ctx.stream, {Rotation::Forward, m(x_TD_), turned_, m(cos_SD_), m(sin_SD_),
                                seq_len_, info.documents.position_T, head_width_});
}

void RopeBody::backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  ctx.kernels.rope(ctx.stream, {Rotation::Inverse, m(dx_TD_), turned_, m(cos_SD_), m(sin_SD_),
                                seq_len_, info.documents.position_T, head_width_});
}

ConcatBody::ConcatBody(const OpBinding& b)
    : x_TX_(b.input(0)),
      shared_TP_(b.input(1)),
      y_TY_(b.output()),
      dy_TY_(b.output_grad()),
      dx_TX_(b.input_grad(0)),
      dshared_TP_(b.input_grad(1)),
      sum_TP_(b.matrix_of(b.op().name + ".shared_grad_Tp")) {
  const Value& y = b.output_value();
  heads_ = part_of(y.dims[1], b.model()).count;
  TRIREME_CHECK(!b.input_grad_addend(0) && !b.input_grad_addend(1),
                "what is put side by side has no other reader");
}

// Calls visit(part of x, part of y for x, part of y for `shared`) for every head.
template <typename Visit>
void ConcatBody::for_each_head(const MatrixRef& x_TX, const MatrixRef& y_TY, Visit&& visit) const {
  const int64_t own = x_TX.cols / heads_, all = y_TY.cols / heads_;
  for (int64_t head = 0; head < heads_; ++head) {
    visit(cols_of(x_TX, head * own, own), cols_of(y_TY, head * all, own),
          cols_of(y_TY, head * all + own, all - own));
  }
}

void ConcatBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef shared_TP = m(shared_TP_);
  for_each_head(m(x_TX_), m(y_TY_),
                [&](const MatrixRef& x, const MatrixRef& y_own, const MatrixRef& y_shared) {
                  ctx.kernels.copy_matrix(ctx.stream, {x, y_own});
                  ctx.kernels.copy_matrix(ctx.stream, {shared_TP, y_shared});
                });
}

// The gradients of all heads are summed in fp32.
void ConcatBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef sum_TP = m(sum_TP_);
  Write write = Write::Overwrite;
  for_each_head(m(dx_TX_), m(dy_TY_),
                [&](const MatrixRef& dx, const MatrixRef& dy_own, const MatrixRef& dy_shared) {
                  ctx.kernels.copy_matrix(ctx.stream, {dy_own, dx});
                  ctx.kernels.copy_matrix(ctx.stream, {dy_shared, sum_TP, write});
                  write = Write::Accumulate;
                });
  ctx.kernels.copy_matrix(ctx.stream, {sum_TP, m(dshared_TP_)});
}

ScaleBody::ScaleBody(const OpBinding& b)
    : gain_C_(b.vector()),
      x_TC_(b.input()),
      y_TC_(b.output()),
      dy_TC_(b.output_grad()),
      dx_{b.input_grad(), b.input_grad_addend()},
      dgain_C_(b.vector_grad()) {}

void ScaleBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.scale_forward(ctx.stream, {m(x_TC_), gain_C_, m(y_TC_)});
}

void ScaleBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.scale_backward_input(ctx.stream, {m(dy_TC_), gain_C_, m(dx_.addend), m(dx_.dest)});
}

void ScaleBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                Write write) const {
  ctx.kernels.scale_backward_weight(ctx.stream, {m(dy_TC_), m(x_TC_), m(dgain_C_), write});
}

AddBody::AddBody(const OpBinding& b)
    : a_TC_(b.input(0)),
      b_TC_(b.input(1)),
      y_TC_(b.output()),
      dy_TC_(b.output_grad()),
      da_{b.input_grad(0), b.input_grad_addend(0)},
      db_{b.input_grad(1), b.input_grad_addend(1)} {}

void AddBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.sum(ctx.stream, {flat(m(a_TC_)), flat(m(b_TC_)), flat(m(y_TC_))});
}

// A gradient that nothing is added to is that of the sum itself.
void AddBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  for (const InputGradAt& grad : {da_, db_}) {
    if (grad.dest) copy_or_add(ctx, m(dy_TC_), m(grad.addend), m(grad.dest));
  }
}

DropoutBody::DropoutBody(const OpBinding& b)
    : model_(b.model()),
      key_(b.key_of(b.op().name)),
      over_tp_(b.output_value().placement.tp),
      columns_(part_of(b.output_value().column_dims(), b.model())),
      x_TC_(b.input()),
      y_TC_(b.output()),
      dy_TC_(b.output_grad()),
      dx_{b.input_grad(), b.input_grad_addend()} {}

void DropoutBody::drop(Ctx& ctx, const MicrobatchInfo& info, MatrixRef x_TC, MatrixRef addend_TC,
                       MatrixRef y_TC) const {
  drop_features(ctx, info, key_, model_, over_tp_, columns_, x_TC, addend_TC, y_TC);
}

void DropoutBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  if (drops_residual(model_, info)) {
    drop(ctx, info, m(x_TC_), {}, m(y_TC_));
  } else {
    copy_or_add(ctx, m(x_TC_), {}, m(y_TC_));
  }
}

void DropoutBody::backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  drop(ctx, info, m(dy_TC_), m(dx_.addend), m(dx_.dest));
}

RedistributeBody::RedistributeBody(const OpBinding& b)
    : change_(b.op().change),
      x_TC_(b.input()),
      y_TC_(b.output()),
      dy_TC_(b.output_grad()),
      dx_TC_(b.input_grad()) {
  TRIREME_CHECK(!b.input_grad_addend(), "only a redistribution reads its input");
}

void RedistributeBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef x_TC = m(x_TC_), y_TC = m(y_TC_);
  redistribute_tokens(ctx, change_, std::max(x_TC.rows, y_TC.rows), x_TC, y_TC);
}

void RedistributeBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef dy_TC = m(dy_TC_), dx_TC = m(dx_TC_);
  redistribute_tokens(ctx, backward_of(change_), std::max(dx_TC.rows, dy_TC.rows), dy_TC, dx_TC);
}

}  // namespace trireme
