#include "nn/head.h"

#include <algorithm>

#include "nn/residual.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

TensorRef slice(const TensorRef& x_T, int64_t begin, int64_t count) {
  return {static_cast<char*>(x_T.data) + begin * size_of(x_T.dtype), x_T.dtype, Shape{count}};
}

}  // namespace

HeadBlock::Params HeadBlock::Params::bind(const Frame& frame, MatrixRef weight_VC) {
  return {Norm::bind_params(frame, "final_norm"), weight_VC};
}

HeadBlock HeadBlock::bind(const ModelShard& model, const Frame& params, MatrixRef weight_VC) {
  return {model, Norm::bind(model, params, "final_norm"), weight_VC};
}

void HeadBlock::gather(Ctx& ctx, const Saved& s) const {
  redistribute_tokens(ctx, enter_block(model.residual), s.h_full_TC.rows, s.h_TC, s.h_full_TC);
}

MatrixRef HeadBlock::project_tile(Ctx& ctx, const Saved& s, int64_t begin, int64_t count) const {
  const MatrixRef logits_tV = rows_of(s.logits_tile_tV, 0, count);
  ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NT,
                                  .a = rows_of(s.h_full_TC, begin, count),
                                  .b = weight_VC,
                                  .c = logits_tV});
  return logits_tV;
}

void HeadBlock::loss_of_tile(Ctx& ctx, const Saved& s, int64_t begin, MatrixRef logits_tV) const {
  const int64_t count = logits_tV.rows;
  const TensorRef targets_t = slice(s.targets_T, begin, count);
  const Shape part{3, count}, parts{3 * ctx.tp.size(), count};
  const TensorRef part_3t{s.part_3t.data, DType::F32, part};
  const TensorRef parts_3Rt{s.parts_3Rt.data, DType::F32, parts};
  ctx.kernels.softmax_part(
      ctx.stream, {logits_tV, targets_t, model.first_token, model.num_tokens, matrix(part_3t)});
  redistribute(ctx.tp, join_softmax(), parts, part_3t, parts_3Rt, {});
  ctx.kernels.cross_entropy(ctx.stream,
                            {matrix(parts_3Rt), targets_t, slice(s.loss_T, begin, count),
                             slice(s.max_T, begin, count), slice(s.sum_T, begin, count)});
}

void HeadBlock::gradient_of_tile(Ctx& ctx, const Saved& s, int64_t begin, MatrixRef logits_tV,
                                 MatrixRef dlogits_tV) const {
  const int64_t count = logits_tV.rows;
  ctx.kernels.cross_entropy_gradient(
      ctx.stream,
      {logits_tV, slice(s.targets_T, begin, count), model.first_token, slice(s.max_T, begin, count),
       slice(s.sum_T, begin, count), dlogits_tV, ctx.loss_scale});
}

void HeadBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  if (model.final_norm) norm.forward(ctx, s.y_TC, s.h_TC, s.norm);
  gather(ctx, s);
  const int64_t tile_tokens = s.logits_tile_tV.rows, num_tokens = s.h_full_TC.rows;
  for (int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    const int64_t count = std::min(tile_tokens, num_tokens - begin);
    const MatrixRef logits_tV = project_tile(ctx, s, begin, count);
    loss_of_tile(ctx, s, begin, logits_tV);
    if (!info.training) continue;
    const MatrixRef dlogits_tV = s.dlogits_TV ? rows_of(s.dlogits_TV, begin, count) : logits_tV;
    gradient_of_tile(ctx, s, begin, logits_tV, dlogits_tV);
    ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NN,
                                    .a = dlogits_tV,
                                    .b = weight_VC,
                                    .c = rows_of(s.dh_full_TC, begin, count)});
  }
  if (!info.training) return;
  redistribute_tokens(ctx, backward_of(enter_block(model.residual)), num_tokens, s.dh_full_TC,
                      s.dh_TC);
}

void HeadBlock::backward_input(Ctx& ctx, const Saved& s, MatrixRef dy_TC) const {
  if (model.final_norm) {
    norm.backward_input(ctx, s.dh_TC, s.y_TC, s.norm, {}, dy_TC);
  } else {
    const Shape flat{s.dh_TC.rows * s.dh_TC.cols};
    ctx.kernels.convert(ctx.stream,
                        {{s.dh_TC.data, s.dh_TC.dtype, flat}, {dy_TC.data, dy_TC.dtype, flat}});
  }
}

void HeadBlock::backward_weight(Ctx& ctx, const Saved& s, const Params& dparams,
                                Write write) const {
  norm.backward_weight(ctx, s.dh_TC, s.y_TC, s.norm, dparams.norm, write);
  gather(ctx, s);
  const auto add_dw = [&](MatrixRef dlogits_tV, MatrixRef h_tC, Write tile_write) {
    ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::TN,
                                    .a = dlogits_tV,
                                    .b = h_tC,
                                    .c = dparams.weight_VC,
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
