#include "nn/loss_body.h"

#include <algorithm>

#include "nn/product.h"
#include "nn/residual.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

// Returns the factor of this loss in the sum that is trained. The modules that look ahead share one
// weight.
float scale_of(const Op& op, const ModelSpec& model) {
  return op.ahead == 0 ? 1.0f : static_cast<float>(model.mtp_loss_weight / double(model.mtp_depth));
}

TensorRef tokens_of(const TensorRef& x_T, int64_t begin, int64_t count) {
  return {static_cast<char*>(x_T.data) + begin * size_of(x_T.dtype), x_T.dtype, Shape{count}};
}

}  // namespace

LossBody::LossBody(const OpBinding& b)
    : model_(b.model()),
      weight_VC_(b.weight()),
      bias_V_(b.vector()),
      over_slices_(b.slice_sum(b.op().slices.backward)),
      enter_(b.op().enter),
      h_TC_(b.input()),
      h_full_TC_(b.at(b.memory().gathered_input)),
      dh_full_TC_(b.at(b.memory().gathered_input_grad)),
      dh_TC_(b.input_grad()),
      dlogits_TV_(b.matrix_of(ahead_prefix(b.op()) + "head.dlogits_TV")),
      dlogits_tile_tV_(b.matrix_of("head.dlogits_tile_tV")),
      logits_tile_tV_(b.matrix_of("head.logits_tile_tV")),
      targets_T_(b.tensor(ahead_prefix(b.op()) + "targets_T")),
      loss_T_(b.tensor(ahead_prefix(b.op()) + "loss_T")),
      max_T_(b.tensor(ahead_prefix(b.op()) + "head.max_T")),
      sum_T_(b.tensor(ahead_prefix(b.op()) + "head.sum_T")),
      part_3t_(b.tensor("head.part_3t")),
      parts_3Rt_(b.tensor("head.parts_3Rt")),
      dweight_VC_(b.weight_grad()),
      dbias_V_(b.vector_grad()),
      adds_to_grad_(b.adds_to_grad(b.first_param(true))),
      grad_scale_(scale_of(b.op(), b.model())) {}

// Rows of logits have logit_columns numbers in memory; kernels see vocab_size of them.
LossBody::Tensors LossBody::tensors_of(const SlotMemory& m) const {
  const auto logits = [&](MatrixAt at) { return cols_of(m(at), 0, model_.vocab_size); };
  return {m(h_TC_),
          m(h_full_TC_),
          m(dh_full_TC_),
          m(dh_TC_),
          logits(dlogits_TV_),
          m(targets_T_),
          m(loss_T_),
          m(max_T_),
          m(sum_T_),
          logits(logits_tile_tV_),
          m(part_3t_),
          m(parts_3Rt_),
          logits(dlogits_tile_tV_)};
}

void LossBody::gather(Ctx& ctx, const Tensors& s) const {
  if (enter_) redistribute_tokens(ctx, enter_->change, s.h_full_TC.rows, s.h_TC, s.h_full_TC);
}

LossBody::Rows LossBody::rows_of_slice(int slice) const {
  const LayerSlices& slices = model_.slices;
  const int64_t begin = slices.begin(model_.num_tokens, slice);
  return {begin - model_.first_token, slices.begin(model_.num_tokens, slice + 1) - begin};
}

MatrixRef LossBody::project_tile(Ctx& ctx, const Tensors& s, int64_t begin, int64_t count) const {
  const MatrixRef logits_tV = rows_of(s.logits_tile_tV, 0, count);
  multiply(ctx, {.form = MatmulForm::NT,
                 .a = rows_of(s.h_full_TC, begin, count),
                 .b = weight_VC_,
                 .c = logits_tV,
                 .bias_N = bias_V_});
  return logits_tV;
}

void LossBody::loss_of_tile(Ctx& ctx, const Tensors& s, int64_t begin, MatrixRef logits_tV,
                            const TensorRef& hit_T) const {
  const int64_t count = logits_tV.rows;
  const TensorRef targets_t = tokens_of(s.targets_T, begin, count);
  const LayerSlices& slices = model_.slices;
  const Shape part{3 * slices.count, count}, parts{3 * slices.all, count};
  const TensorRef part_3t{s.part_3t.data, DType::F32, part};
  const TensorRef parts_3Rt{s.parts_3Rt.data, DType::F32, parts};
  for (int slice = 0; slice < slices.count; ++slice) {
    const auto [first, rows] = rows_of_slice(slice);
    ctx.kernels.softmax_part(
        ctx.stream, {cols_of(logits_tV, first, rows), targets_t, model_.first_token + first,
                     model_.num_tokens, rows_of(matrix(part_3t), 3 * slice, 3)});
  }
  redistribute(ctx.tp, join_softmax(), parts, part_3t, parts_3Rt, {});
  ctx.kernels.cross_entropy(ctx.stream,
                            {matrix(parts_3Rt), targets_t, tokens_of(s.loss_T, begin, count),
                             tokens_of(s.max_T, begin, count), tokens_of(s.sum_T, begin, count),
                             hit_T ? tokens_of(hit_T, begin, count) : TensorRef()});
}

void LossBody::gradient_of_tile(Ctx& ctx, const Tensors& s, int64_t begin, MatrixRef logits_tV,
                                MatrixRef dlogits_tV) const {
  const int64_t count = logits_tV.rows;
  for (int slice = 0; slice < model_.slices.count; ++slice) {
    const auto [first, rows] = rows_of_slice(slice);
    ctx.kernels.cross_entropy_gradient(
        ctx.stream, {cols_of(logits_tV, first, rows), tokens_of(s.targets_T, begin, count),
                     model_.first_token + first, tokens_of(s.max_T, begin, count),
                     tokens_of(s.sum_T, begin, count), cols_of(dlogits_tV, first, rows),
                     ctx.loss_scale * grad_scale_});
  }
}

void LossBody::input_gradient_of_tile(Ctx& ctx, MatrixRef dlogits_tV, MatrixRef dh_tC) const {
  over_slices_(ctx, dh_tC, [&](int slice, const MatrixRef& addend_tC) {
    const auto [first, rows] = rows_of_slice(slice);
    multiply(ctx, {.form = MatmulForm::NN,
                   .a = cols_of(dlogits_tV, first, rows),
                   .b = rows_of(weight_VC_, first, rows),
                   .c = addend_tC});
  });
}

void LossBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const Tensors s = tensors_of(m);
  gather(ctx, s);
  const int64_t tile_tokens = s.logits_tile_tV.rows, num_tokens = s.h_full_TC.rows;
  for (int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    const int64_t count = std::min(tile_tokens, num_tokens - begin);
    const MatrixRef logits_tV = project_tile(ctx, s, begin, count);
    // Without a backward pass nothing reads the sums, so their memory receives the hits.
    loss_of_tile(ctx, s, begin, logits_tV, info.training ? TensorRef() : s.sum_T);
    if (!info.training) continue;
    const MatrixRef dlogits_tV = s.dlogits_TV        ? rows_of(s.dlogits_TV, begin, count)
                                 : s.dlogits_tile_tV ? rows_of(s.dlogits_tile_tV, 0, count)
                                                     : logits_tV;
    gradient_of_tile(ctx, s, begin, logits_tV, dlogits_tV);
    input_gradient_of_tile(ctx, dlogits_tV, rows_of(s.dh_full_TC, begin, count));
  }
  if (!info.training) return;
  if (enter_) {
    redistribute_tokens(ctx, backward_of(enter_->change), num_tokens, s.dh_full_TC, s.dh_TC);
  }
}

void LossBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                               Write given_write) const {
  const Write write = adds_to_grad_ ? Write::Accumulate : given_write;
  const Tensors s = tensors_of(m);
  gather(ctx, s);
  const auto add_dw = [&](MatrixRef dlogits_tV, MatrixRef h_tC, Write tile_write) {
    if (dbias_V_) ctx.kernels.column_sum(ctx.stream, {dlogits_tV, m(dbias_V_), tile_write});
    if (!dweight_VC_) return;
    multiply(ctx, {.form = MatmulForm::TN,
                   .a = dlogits_tV,
                   .b = h_tC,
                   .c = m(dweight_VC_),
                   .write = tile_write});
  };
  if (s.dlogits_TV) {
    add_dw(s.dlogits_TV, s.h_full_TC, write);
    return;
  }
  const int64_t tile_tokens = s.logits_tile_tV.rows, num_tokens = s.h_full_TC.rows;
  for (int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    const int64_t count = std::min(tile_tokens, num_tokens - begin);
    const MatrixRef logits_tV = project_tile(ctx, s, begin, count);
    gradient_of_tile(ctx, s, begin, logits_tV, logits_tV);
    add_dw(logits_tV, rows_of(s.h_full_TC, begin, count), begin == 0 ? write : Write::Accumulate);
  }
}

}  // namespace trireme
