#include "nn/image_bodies.h"

#include <cmath>

#include "base/check.h"
#include "kernels/pool/pool.h"
#include "sharding/redistribute.h"

namespace trireme {
namespace {

TokenCounts images_of(const OpBinding& b) { return {b.model(), b.shape()}; }

ImageWindow window_of(const OpBinding& b) { return images_of(b).window_of(b.graph(), b.op()); }

// True if a rank takes some rows of every image of the micro-batch, false if it takes some images.
bool takes_rows(const OpBinding& b) { return lies_by_rows(b.output_value()); }

InputGradAt input_grad_of(const OpBinding& b) { return {b.input_grad(), b.input_grad_addend()}; }

// Copies the addend, if there is one, to the place of the gradient. Returns how the op writes its
// part of the gradient.
Write begin_sum(Ctx& ctx, const MatrixRef& addend, const MatrixRef& dest) {
  if (!addend) return Write::Overwrite;
  if (addend.data != dest.data) ctx.kernels.convert(ctx.stream, {flat(addend), flat(dest)});
  return Write::Accumulate;
}

TensorAt statistic(const OpBinding& b, const std::string& ending) {
  return b.tensor(b.op().name + ending);
}

BatchNormBlocks norm_blocks_of(const OpBinding& b) {
  return batch_norm_blocks(b.graph(), b.op(), images_of(b), b.shape().batch_ranks);
}

std::string total_name(const OpBinding& b) {
  return ".total_2x" + std::to_string(b.output_value().dims.back().extent);
}

template <typename T>
void write_pixels(Stream& stream, const uint8_t* bytes, int64_t stride, int64_t images,
                  const PixelScale& scale, const MatrixRef& y_PC) {
  if (images == 0) return;  // there are fewer than ranks
  const int64_t pixels = y_PC.rows / images, channels = y_PC.cols;
  stream.team().parallel_for(images, [&](int64_t image, int) {
    const uint8_t* x = bytes + image * stride;
    T* y = static_cast<T*>(y_PC.data) + image * pixels * channels;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t c = 0; c < channels; ++c) {
        *y++ = T((float(*x++) - scale.mean[size_t(c)]) * scale.factor[size_t(c)]);
      }
    }
  });
}

}  // namespace

PixelsBody::PixelsBody(const OpBinding& b)
    : first_(takes_rows(b) ? 0 : images_of(b).first),
      images_(takes_rows(b) ? images_of(b).all : images_of(b).residual),
      first_byte_(images_of(b).image_rows_of(b.output_value()).begin *
                  whole_images(b.output_value(), 1)[2]),
      sample_words_(b.model().sample_words()),
      scale_(pixel_scale_of(b.model())),
      words_(b.tokens()),
      y_PC_(b.output()) {}

void PixelsBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef y_PC = m(y_PC_);
  const int64_t stride = sample_words_ * int64_t(sizeof(int32_t));
  const auto* bytes = static_cast<const uint8_t*>(m(words_).data) + first_ * stride + first_byte_;
  switch (y_PC.dtype) {
    case DType::F32:
      return write_pixels<float>(ctx.stream, bytes, stride, images_, scale_, y_PC);
    case DType::BF16:
      return write_pixels<bf16>(ctx.stream, bytes, stride, images_, scale_, y_PC);
    default:
      return write_pixels<f16>(ctx.stream, bytes, stride, images_, scale_, y_PC);
  }
}

ConvolutionBody::ConvolutionBody(const OpBinding& b)
    : window_(window_of(b)),
      w_FK_(b.weight()),
      bias_F_(b.vector(".b")),
      x_PC_(b.input()),
      y_QF_(b.output()),
      dy_QF_(b.output_grad()),
      dx_(input_grad_of(b)),
      dw_FK_(b.weight_grad()),
      db_F_(b.vector_grad(".b")) {
  const int64_t bytes =
      convolution_scratch(window_, 1, x_PC_.cols, y_QF_.cols, x_PC_.dtype).bytes();
  if (bytes > 0) scratch_ = b.tensor(convolution_scratch_name(bytes));
}

void ConvolutionBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.convolution_forward(ctx.stream, {window_, 1, m(x_PC_), w_FK_, bias_F_, m(y_QF_)});
}

void ConvolutionBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef dx_PC = m(dx_.dest);
  if (!dx_PC) return;
  const Write write = begin_sum(ctx, m(dx_.addend), dx_PC);
  ctx.kernels.convolution_backward_input(ctx.stream,
                                         {window_, 1, m(dy_QF_), w_FK_, dx_PC, m(scratch_), write});
}

void ConvolutionBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                      Write write) const {
  const MatrixRef dy_QF = m(dy_QF_);
  if (dw_FK_) {
    ImageWindow window = window_;
    window.images /= m.leaf.count;
    ctx.kernels.convolution_backward_weight(ctx.stream,
                                            {window, 1, dy_QF, m(x_PC_), m(dw_FK_), write});
  }
  if (db_F_) ctx.kernels.column_sum(ctx.stream, {dy_QF, m(db_F_), write});
}

BatchNormBody::BatchNormBody(const OpBinding& b)
    : blocks_(norm_blocks_of(b)),
      all_rows_(b.output_value().inner_rows() * images_of(b).all * b.shape().batch_ranks),
      eps_(static_cast<float>(b.model().norm_eps)),
      gain_C_(b.vector(".gain")),
      bias_C_(b.vector(".bias")),
      running_mean_C_(b.vector(".mean")),
      running_variance_C_(b.vector(".variance")),
      x_PC_(b.input()),
      y_PC_(b.output()),
      dy_PC_(b.output_grad()),
      dx_(input_grad_of(b)),
      part_b2C_(b.tensor(blocks_.part_name)),
      of_tp_b2C_(b.tensor(blocks_.of_tp_name)),
      moments_B2C_(statistic(b, ".moments_B2C")),
      mean_C_(statistic(b, ".mean_C")),
      rstd_C_(statistic(b, ".rstd_C")),
      sums_B2C_(b.tensor(blocks_.sums_name)),
      total_2C_(statistic(b, total_name(b))),
      dgain_C_(b.vector_grad(".gain")),
      dbias_C_(b.vector_grad(".bias")),
      mean_sum_C_(b.vector_grad(".mean")),
      variance_sum_C_(b.vector_grad(".variance")) {}

void BatchNormBody::take_running_statistics(Ctx& ctx, const SlotMemory& m) const {
  const TensorRef rstd_C = m(rstd_C_);
  ctx.kernels.convert(ctx.stream, {running_mean_C_, m(mean_C_)});
  ctx.kernels.convert(ctx.stream, {running_variance_C_, rstd_C});
  float* rstd = rstd_C.as<float>();
  for (int64_t c = 0; c < rstd_C.num_elements(); ++c) rstd[c] = 1.0f / std::sqrt(rstd[c] + eps_);
}

TensorRef BatchNormBody::own_sums(const SlotMemory& m, const TensorAt& all_B2C) const {
  return m(part_b2C_ ? part_b2C_ : of_tp_b2C_ ? of_tp_b2C_ : all_B2C);
}

void BatchNormBody::gather(Ctx& ctx, const SlotMemory& m, const TensorAt& all_B2C) const {
  const TensorRef all = m(all_B2C), of_tp = of_tp_b2C_ ? m(of_tp_b2C_) : all;
  if (part_b2C_) redistribute(ctx.tp, gather_sums(), of_tp.shape, m(part_b2C_), of_tp, {});
  if (of_tp_b2C_) redistribute(ctx.batch, gather_sums(), all.shape, of_tp, all, {});
}

TensorRef BatchNormBody::sums_of_leaf(const Ctx& ctx, const SlotMemory& m) const {
  TensorRef sums = m(sums_B2C_);
  const int64_t num_blocks = blocks_.of_tp / m.leaf.count, channels = sums.shape[2];
  const int64_t first = ctx.batch.rank() * blocks_.of_tp + m.leaf.index * num_blocks;
  sums.data = sums.as<float>() + first * 2 * channels;
  sums.shape = Shape{num_blocks, 2, channels};
  return sums;
}

void BatchNormBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const MatrixRef x_PC = m(x_PC_);
  if (info.training) {
    ctx.kernels.batch_norm_moments(ctx.stream, {x_PC, blocks_.own_rows, own_sums(m, moments_B2C_)});
    gather(ctx, m, moments_B2C_);
    ctx.kernels.batch_norm_statistics(ctx.stream, {.moments_B2C = m(moments_B2C_),
                                                   .block_rows = blocks_.rows,
                                                   .eps = eps_,
                                                   .mean_C = m(mean_C_),
                                                   .rstd_C = m(rstd_C_),
                                                   .taller_blocks = blocks_.taller,
                                                   .taller_rows = blocks_.taller_rows});
  } else {
    take_running_statistics(ctx, m);
  }
  ctx.kernels.batch_norm_forward(ctx.stream,
                                 {x_PC, m(mean_C_), m(rstd_C_), gain_C_, bias_C_, m(y_PC_)});
}

void BatchNormBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef dy_PC = m(dy_PC_), x_PC = m(x_PC_), dx_PC = m(dx_.dest);
  const TensorRef mean_C = m(mean_C_), rstd_C = m(rstd_C_), total_2C = m(total_2C_);
  ctx.kernels.batch_norm_backward_sums(
      ctx.stream, {dy_PC, x_PC, mean_C, rstd_C, blocks_.own_rows, own_sums(m, sums_B2C_)});
  gather(ctx, m, sums_B2C_);
  ctx.kernels.batch_norm_backward_weight(ctx.stream, {m(sums_B2C_), total_2C});
  if (!dx_PC) return;
  const Write write = begin_sum(ctx, m(dx_.addend), dx_PC);
  ctx.kernels.batch_norm_backward_input(
      ctx.stream, {dy_PC, x_PC, mean_C, rstd_C, gain_C_, total_2C, all_rows_, dx_PC, write});
}

// Joins the statistics once more, because F does not know whether the sum over micro-batches has
// begun. Those of a micro-batch are counted once, with its first leaf.
void BatchNormBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                    Write write) const {
  ctx.kernels.batch_norm_backward_weight(
      ctx.stream, {sums_of_leaf(ctx, m), m(total_2C_), m(dgain_C_), m(dbias_C_), write});
  if (m.leaf.index > 0) {
    for (const TensorAt& sum_C : {mean_sum_C_, variance_sum_C_}) {
      if (sum_C) ctx.kernels.zero(ctx.stream, {m(sum_C)});
    }
    return;
  }
  ctx.kernels.batch_norm_statistics(ctx.stream, {.moments_B2C = m(moments_B2C_),
                                                 .block_rows = blocks_.rows,
                                                 .eps = eps_,
                                                 .mean_C = m(mean_C_),
                                                 .rstd_C = m(rstd_C_),
                                                 .mean_sum_C = m(mean_sum_C_),
                                                 .variance_sum_C = m(variance_sum_C_),
                                                 .write = write,
                                                 .taller_blocks = blocks_.taller,
                                                 .taller_rows = blocks_.taller_rows});
}

PoolBody::PoolBody(const OpBinding& b)
    : window_(window_of(b)),
      averages_(b.op().averages),
      x_PC_(b.input()),
      y_QC_(b.output()),
      dy_QC_(b.output_grad()),
      dx_(input_grad_of(b)) {}

void PoolBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const PoolKind kind = averages_ ? PoolKind::Average : PoolKind::Max;
  ctx.kernels.pool_forward(ctx.stream, {kind, window_, m(x_PC_), m(y_QC_)});
}

void PoolBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  const MatrixRef dx_PC = m(dx_.dest);
  if (!dx_PC) return;
  const Write write = begin_sum(ctx, m(dx_.addend), dx_PC);
  const PoolKind kind = averages_ ? PoolKind::Average : PoolKind::Max;
  const MatrixRef x_PC = averages_ ? MatrixRef{} : m(x_PC_);
  ctx.kernels.pool_backward(ctx.stream, {kind, window_, m(dy_QC_), x_PC, dx_PC, write});
}

RedistributeImagesBody::RedistributeImagesBody(const OpBinding& b)
    : change_(b.op().change),
      whole_(whole_images(b.output_value(), images_of(b).all)),
      x_PC_(b.input()),
      y_PC_(b.output()),
      dy_PC_(b.output_grad()),
      dx_PC_(b.input_grad()) {
  TRIREME_CHECK(!b.input_grad_addend(), "a redistribution is the last to read its images");
  const int64_t bytes = image_scratch_bytes(b.graph(), b.op(), images_of(b), x_PC_.dtype);
  if (bytes > 0) scratch_ = b.tensor(image_scratch_name(bytes));
}

void RedistributeImagesBody::redistribute(Ctx& ctx, const SlotMemory& m,
                                          const Redistribution& change, const MatrixAt& x_PC,
                                          const MatrixAt& y_PC) const {
  const auto part = [&](const MatrixAt& at, Placement placement) {
    return TensorRef{m(at).data, at.dtype,
                     local_shape(whole_, placement, ctx.tp.size(), ctx.tp.rank())};
  };
  const TensorRef scratch = m(scratch_);
  const size_t bytes = scratch_ ? size_t(scratch.bytes()) : 0;
  trireme::redistribute(ctx.tp, change, whole_, part(x_PC, change.from), part(y_PC, change.to),
                        {static_cast<std::byte*>(scratch.data), bytes});
}

void RedistributeImagesBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  redistribute(ctx, m, change_, x_PC_, y_PC_);
}

void RedistributeImagesBody::backward_input(Ctx& ctx, const MicrobatchInfo&,
                                            const SlotMemory& m) const {
  if (dx_PC_) redistribute(ctx, m, backward_of(change_), dy_PC_, dx_PC_);
}

FlattenBody::FlattenBody(const OpBinding& b)
    : x_PC_(b.input()), y_BF_(b.output()), dy_BF_(b.output_grad()), dx_(input_grad_of(b)) {
  TRIREME_CHECK(!dx_.addend, "an image that is flattened has no other reader");
}

void FlattenBody::forward(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.convert(ctx.stream, {flat(m(x_PC_)), flat(m(y_BF_))});
}

void FlattenBody::backward_input(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m) const {
  ctx.kernels.convert(ctx.stream, {flat(m(dy_BF_)), flat(m(dx_.dest))});
}

}  // namespace trireme
