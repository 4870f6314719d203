#pragma once

#include "graph/image_tensors.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "schema/image_net.h"
#include "schema/image_window.h"

namespace trireme {

// The ops of nets of images. Legend: P pixels that an op reads, Q pixels that it makes, C channels,
// F filters, K elements of a filter, B blocks of a batch norm, such as the images of the
// micro-batch. Where the tp ranks share out the images or their rows, P and Q count pixels of this
// rank.

// y = (byte - mean) * factor of the channel, rounded once: about 0 on average with a spread of
// about 1.
class PixelsBody final : public OpBody {
 public:
  explicit PixelsBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  int64_t first_, images_;  // the first of this rank's images, and their number
  int64_t first_byte_;      // of an image that this rank takes
  int64_t sample_words_;    // of one image
  PixelScale scale_;
  TensorAt words_;
  MatrixAt y_PC_;
};

// y = the windows' pixels times the filters + bias.
class ConvolutionBody final : public OpBody {
 public:
  explicit ConvolutionBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  ImageWindow window_;
  MatrixRef w_FK_;
  TensorRef bias_F_;  // absent: 0
  MatrixAt x_PC_, y_QF_, dy_QF_;
  InputGradAt dx_;
  MatrixAt dw_FK_;
  TensorAt db_F_, scratch_;
};

// y = (x - mean) * rstd * gain + bias by the statistics of the batch, which is a micro-batch or all
// images of the step; without training, by the parameters mean and variance. Ranks with parts of
// the images gather the sums of every image, so all of them have the statistics of one rank with
// all images. Ranks with some rows of each image gather the sums of these: then statistics are the
// same on all. The gradients of gain and bias are those of the images of all tp ranks.
class BatchNormBody final : public OpBody {
 public:
  explicit BatchNormBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  void take_running_statistics(Ctx& ctx, const SlotMemory& m) const;
  // Returns the memory for the sums over this rank's own blocks, from which gather() makes those of
  // all blocks.
  TensorRef own_sums(const SlotMemory& m, const TensorAt& all_B2C) const;
  void gather(Ctx& ctx, const SlotMemory& m, const TensorAt& all_B2C) const;
  // Returns the sums of the blocks of which W makes gradients: those of this rank of dp, or of a
  // leaf of its micro-batch.
  TensorRef sums_of_leaf(const Ctx& ctx, const SlotMemory& m) const;

  BatchNormBlocks blocks_;
  int64_t all_rows_;  // of all images of the batch
  float eps_;
  TensorRef gain_C_, bias_C_, running_mean_C_, running_variance_C_;
  MatrixAt x_PC_, y_PC_, dy_PC_;
  InputGradAt dx_;
  TensorAt part_b2C_;   // absent: this rank has all blocks of the tp ranks
  TensorAt of_tp_b2C_;  // absent: these are the whole batch
  TensorAt moments_B2C_, mean_C_, rstd_C_, sums_B2C_, total_2C_;
  TensorAt dgain_C_, dbias_C_, mean_sum_C_, variance_sum_C_;
};

// y = the maximum or the mean of every window.
class PoolBody final : public OpBody {
 public:
  explicit PoolBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  ImageWindow window_;
  bool averages_;
  MatrixAt x_PC_, y_QC_, dy_QC_;
  InputGradAt dx_;
};

// y = x with another placement over tp, for images or their rows: a halo, whole images, ...
class RedistributeImagesBody final : public OpBody {
 public:
  explicit RedistributeImagesBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  void redistribute(Ctx& ctx, const SlotMemory& m, const Redistribution& change,
                    const MatrixAt& x_PC, const MatrixAt& y_PC) const;

  Redistribution change_;
  Shape whole_;  // [images, rows, numbers of a row]
  MatrixAt x_PC_, y_PC_, dy_PC_, dx_PC_;
  TensorAt scratch_;
};

// y = x with all numbers of an image in one row.
class FlattenBody final : public OpBody {
 public:
  explicit FlattenBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  MatrixAt x_PC_, y_BF_, dy_BF_;
  InputGradAt dx_;
};

}  // namespace trireme
