#include "nn/head.h"

#include <algorithm>

#include "nn/residual.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

TensorRef tokens_of(const TensorRef& x_T, int64_t begin, int64_t count) {
  return {static_cast<char*>(x_T.data) + begin * size_of(x_T.dtype), x_T.dtype, Shape{count}};
}

}  // namespace

HeadBlock::Params HeadBlock::Params::bind(const Frame& frame, MatrixRef weight_VC) {
  return {Norm::bind_params(frame, "final_norm"), weight_VC};
}

HeadBlock HeadBlock::bind(const ModelShard& model, const Frame& params, MatrixRef weight_VC,
                          const SliceSum& over_slices) {
  return {model, Norm::bind(model, params, "final_norm"), weight_VC, over_slices};
}

void HeadBlock::gather(Ctx& ctx, const Saved& s) const {
  redistribute_tokens(ctx, enter_block(model.residual), s.h_full_TC.rows, s.h_TC, s.h_full_TC);
}

HeadBlock::Rows HeadBlock::rows_of_slice(int slice) const {
  const LayerSlices& slices = over_slices.slices();
  const int64_t begin = slices.begin(model.num_tokens, slice);
  return {begin - model.first_token, slices.begin(model.num_tokens, slice + 1) - begin};
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
  const TensorRef targets_t = tokens_of(s.targets_T, begin, count);
  const LayerSlices& slices = over_slices.slices();
  const Shape part{3 * slices.count, count}, parts{3 * slices.all, count};
  const TensorRef part_3t{s.part_3t.data, DType::F32, part};
  const TensorRef parts_3Rt{s.parts_3Rt.data, DType::F32, parts};
  for (int slice = 0; slice < slices.count; ++slice) {
    const auto [first, rows] = rows_of_slice(slice);
    ctx.kernels.softmax_part(ctx.stream,
                             {cols_of(logits_tV, first, rows), targets_t, model.first_token + first,
                              model.num_tokens, rows_of(matrix(part_3t), 3 * slice, 3)});
  }
  redistribute(ctx.tp, join_softmax(), parts, part_3t, parts_3Rt, {});
  ctx.kernels.cross_entropy(ctx.stream,
                            {matrix(parts_3Rt), targets_t, tokens_of(s.loss_T, begin, count),
                             tokens_of(s.max_T, begin, count), tokens_of(s.sum_T, begin, count)});
}

void HeadBlock::gradient_of_tile(Ctx& ctx, const Saved& s, int64_t begin, MatrixRef logits_tV,
                                 MatrixRef dlogits_tV) const {
  const int64_t count = logits_tV.rows;
  for (int slice = 0; slice < over_slices.slices().count; ++slice) {
    const auto [first, rows] = rows_of_slice(slice);
    ctx.kernels.cross_entropy_gradient(
        ctx.stream,
        {cols_of(logits_tV, first, rows), tokens_of(s.targets_T, begin, count),
         model.first_token + first, tokens_of(s.max_T, begin, count),
         tokens_of(s.sum_T, begin, count), cols_of(dlogits_tV, first, rows), ctx.loss_scale});
  }
}

void HeadBlock::input_gradient_of_tile(Ctx& ctx, MatrixRef dlogits_tV, MatrixRef dh_tC) const {
  over_slices(ctx, dh_tC, [&](int slice, const MatrixRef& addend_tC) {
    const auto [first, rows] = rows_of_slice(slice);
    ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NN,
                                    .a = cols_of(dlogits_tV, first, rows),
                                    .b = rows_of(weight_VC, first, rows),
                                    .c = addend_tC});
  });
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
    input_gradient_of_tile(ctx, dlogits_tV, rows_of(s.dh_full_TC, begin, count));
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
