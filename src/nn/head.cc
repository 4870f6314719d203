#include "nn/head.h"

#include <algorithm>

namespace trireme {
namespace {

TensorRef slice(const TensorRef& x_T, int64_t begin, int64_t count) {
  return {static_cast<char*>(x_T.data) + begin * size_of(x_T.dtype), x_T.dtype, Shape{count}};
}

}  // namespace

HeadBlock::Params HeadBlock::Params::bind(const Frame& frame, const std::string& weight) {
  return {Norm::bind_params(frame, "final_norm"), matrix(frame.at(weight))};
}

HeadBlock HeadBlock::bind(const ModelSpec& model, const Frame& params, const std::string& weight) {
  return {model, Norm::bind(model, params, "final_norm"), matrix(params.at(weight))};
}

void HeadBlock::loss_of_tile(Ctx& ctx, const Saved& s, int64_t begin, int64_t count,
                             MatrixRef dlogits_tV) const {
  const MatrixRef logits_tV = rows_of(s.logits_tile_tV, 0, count);
  ctx.kernels.matmul(
      ctx.stream,
      {.form = MatmulForm::NT, .a = rows_of(s.h_TC, begin, count), .b = weight_VC, .c = logits_tV});
  ctx.kernels.cross_entropy(ctx.stream, {logits_tV, slice(s.targets_T, begin, count),
                                         slice(s.loss_T, begin, count), dlogits_tV});
}

void HeadBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  if (model.final_norm) norm.forward(ctx, s.y_TC, s.h_TC, s.norm);
  const int64_t tile_tokens = s.logits_tile_tV.rows;
  for (int64_t begin = 0; begin < s.h_TC.rows; begin += tile_tokens) {
    const int64_t count = std::min(tile_tokens, s.h_TC.rows - begin);
    if (!info.training) {
      loss_of_tile(ctx, s, begin, count, {});
      continue;
    }
    const MatrixRef dlogits_tV =
        s.dlogits_TV ? rows_of(s.dlogits_TV, begin, count) : rows_of(s.logits_tile_tV, 0, count);
    loss_of_tile(ctx, s, begin, count, dlogits_tV);
    ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NN,
                                    .a = dlogits_tV,
                                    .b = weight_VC,
                                    .c = rows_of(s.dh_TC, begin, count)});
  }
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
  const auto add_dw = [&](MatrixRef dlogits_tV, MatrixRef h_tC, Write tile_write) {
    ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::TN,
                                    .a = dlogits_tV,
                                    .b = h_tC,
                                    .c = dparams.weight_VC,
                                    .write = tile_write});
  };
  if (s.dlogits_TV) {
    add_dw(s.dlogits_TV, s.h_TC, write);
    return;
  }
  const int64_t tile_tokens = s.logits_tile_tV.rows;
  for (int64_t begin = 0; begin < s.h_TC.rows; begin += tile_tokens) {
    const int64_t count = std::min(tile_tokens, s.h_TC.rows - begin);
    const MatrixRef dlogits_tV = rows_of(s.logits_tile_tV, 0, count);
    loss_of_tile(ctx, s, begin, count, dlogits_tV);
    add_dw(dlogits_tV, rows_of(s.h_TC, begin, count), begin == 0 ? write : Write::Accumulate);
  }
}

}  // namespace trireme
