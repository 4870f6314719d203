// Trains a small convolutional net on images. The test calls it kernel by kernel.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "data/image_source.h"
#include "data/synthetic_images.h"
#include "kernels/kernel_table.h"
#include "kernels/own_stream.h"

namespace trireme {
namespace {

// convolution, batch norm, relu
struct ConvolutionBlock {
  ConvolutionBlock(const ImageWindow& shape, int64_t in, int64_t out)
      : window(shape),
        w(DType::F32, {out, shape.size * shape.size * in}),
        gain(DType::F32, {out}),
        bias(DType::F32, {out}),
        dw(DType::F32, {out, shape.size * shape.size * in}),
        dgain(DType::F32, {out}),
        dbias(DType::F32, {out}),
        sums(DType::F32, {shape.images, 2, out}),
        total(DType::F32, {2, out}),
        mean(DType::F32, {out}),
        rstd(DType::F32, {out}),
        mean_sum(DType::F32, {out}),
        variance_sum(DType::F32, {out}),
        z(DType::F32, {shape.out_pixels(), out}),
        normal(DType::F32, {shape.out_pixels(), out}),
        y(DType::F32, {shape.out_pixels(), out}),
        dy(DType::F32, {shape.out_pixels(), out}),
        scratch(DType::U8, {convolution_scratch(shape, 1, in, out, DType::F32).bytes()}) {
    std::fill_n(gain.ref().as<float>(), out, 1.0f);
  }
  int64_t block_rows() const { return window.out_height() * window.out_width(); }

  void forward(const KernelTable& k, Stream& stream, const MatrixRef& x, bool training) {
    k.convolution_forward(stream, {window, 1, x, matrix(w), {}, matrix(z)});
    if (training) {
      k.batch_norm_moments(stream, {matrix(z), block_rows(), sums});
      k.batch_norm_statistics(stream, {sums, block_rows(), 1e-5f, mean, rstd, mean_sum,
                                       variance_sum, Write::Accumulate});
      ++batches;
    }
    k.batch_norm_forward(stream, {matrix(z), mean, rstd, gain, bias, matrix(normal)});
    k.activation_forward(stream, {Activation::Relu, matrix(normal), matrix(y)});
  }
  // Computes the gradients from dy; dx may be absent.
  void backward(const KernelTable& k, Stream& stream, const MatrixRef& x, const MatrixRef& dx) {
    const MatrixRef d = matrix(dy);
    k.activation_backward(stream, {Activation::Relu, d, matrix(normal), d});
    k.batch_norm_backward_sums(stream, {d, matrix(z), mean, rstd, block_rows(), sums});
    k.batch_norm_backward_weight(stream, {sums, total, dgain, dbias});
    k.batch_norm_backward_input(stream, {d, matrix(z), mean, rstd, gain, total, d.rows, d});
    if (dx) k.convolution_backward_input(stream, {window, 1, d, matrix(w), dx, scratch});
    k.convolution_backward_weight(stream, {window, 1, d, x, matrix(dw)});
  }
  // For inference: the mean of the batches since the last call.
  void take_mean_of_batches() {
    for (int64_t c = 0; c < mean.ref().num_elements(); ++c) {
      float& m = mean_sum.ref().as<float>()[c];
      float& v = variance_sum.ref().as<float>()[c];
      mean.ref().as<float>()[c] = m / float(batches);
      rstd.ref().as<float>()[c] = 1.0f / std::sqrt(v / float(batches) + 1e-5f);
      m = v = 0.0f;
    }
    batches = 0;
  }

  ImageWindow window;
  Tensor w, gain, bias, dw, dgain, dbias, sums, total, mean, rstd, mean_sum, variance_sum;
  Tensor z, normal, y, dy, scratch;
  int batches = 0;
};

// Two such blocks with a pool between them, a linear layer and the loss over classes.
class SmallNet {
 public:
  SmallNet(const ImageExtents& extents, int64_t classes, int64_t batch)
      : batch_(batch),
        first_({batch, extents.height, extents.width, 3, 1, 1}, extents.channels, 16),
        pool_{batch, extents.height, extents.width, 2, 2, 0},
        second_({batch, pool_.out_height(), pool_.out_width(), 3, 1, 1}, 16, 32),
        features_(32 * pool_.out_height() * pool_.out_width()),
        x(DType::F32, {batch * extents.pixels(), extents.channels}),
        targets(DType::I32, {batch}),
        pooled_(DType::F32, {pool_.out_pixels(), 16}),
        dpooled_(DType::F32, {pool_.out_pixels(), 16}),
        w_(DType::F32, {classes, features_}),
        dw_(DType::F32, {classes, features_}),
        logits_(DType::F32, {batch, classes}),
        parts_(DType::F32, {3, batch}),
        loss_(DType::F32, {batch}),
        max_(DType::F32, {batch}),
        sum_(DType::F32, {batch}),
        hit_(DType::F32, {batch}) {
    for (const auto& [param, grad] : {std::pair{first_.w.ref(), first_.dw.ref()},
                                      {first_.gain.ref(), first_.dgain.ref()},
                                      {first_.bias.ref(), first_.dbias.ref()},
                                      {second_.w.ref(), second_.dw.ref()},
                                      {second_.gain.ref(), second_.dgain.ref()},
                                      {second_.bias.ref(), second_.dbias.ref()},
                                      {w_.ref(), dw_.ref()}}) {
      params_.push_back({param, grad, Tensor(DType::F32, param.shape)});
      if (param.shape.rank() < 2) continue;
      const float stddev = std::sqrt(2.0f / float(param.shape[1]));
      for (int64_t i = 0; i < param.num_elements(); ++i) {
        const PhiloxCounter words = philox({params_.size()}, counter_of(0, uint64_t(i)));
        param.as<float>()[i] = stddev * 1.7f * (2.0f * uniform_float(words[0]) - 1.0f);
      }
    }
  }

  // Returns the mean loss and the share of images whose class has the largest logit.
  std::pair<float, float> forward(const KernelTable& k, Stream& stream, bool training) {
    first_.forward(k, stream, matrix(x), training);
    k.pool_forward(stream, {PoolKind::Max, pool_, matrix(first_.y), matrix(pooled_)});
    second_.forward(k, stream, matrix(pooled_), training);
    k.matmul(stream,
             {.form = MatmulForm::NT, .a = flat(second_.y), .b = matrix(w_), .c = matrix(logits_)});
    k.softmax_part(stream, {matrix(logits_), targets, 0, 0, matrix(parts_)});
    k.cross_entropy(stream, {matrix(parts_), targets, loss_, max_, sum_, hit_});
    const auto mean = [&](const Tensor& t) {
      const float* value = t.ref().as<float>();
      return std::accumulate(value, value + batch_, 0.0f) / float(batch_);
    };
    return {mean(loss_), mean(hit_)};
  }
  void step(const KernelTable& k, Stream& stream, float lr) {
    const MatrixRef dlogits = matrix(logits_);
    k.cross_entropy_gradient(stream, {dlogits, targets, 0, max_, sum_, dlogits});
    k.matmul(stream,
             {.form = MatmulForm::TN, .a = dlogits, .b = flat(second_.y), .c = matrix(dw_)});
    k.matmul(stream,
             {.form = MatmulForm::NN, .a = dlogits, .b = matrix(w_), .c = flat(second_.dy)});
    second_.backward(k, stream, matrix(pooled_), matrix(dpooled_));
    k.pool_backward(stream,
                    {PoolKind::Max, pool_, matrix(dpooled_), matrix(first_.y), matrix(first_.dy)});
    first_.backward(k, stream, matrix(x), {});
    for (const Trained& p : params_) {
      k.sgd(stream, {.grad_N = flat_vector(p.grad),
                     .master_N = flat_vector(p.param),
                     .momentum_N = flat_vector(p.momentum),
                     .lr = lr,
                     .momentum = 0.9f,
                     .weight_decay = 1e-3f,
                     .grad_scale = 1.0f / float(batch_)});
    }
  }
  void take_mean_of_batches() {
    first_.take_mean_of_batches();
    second_.take_mean_of_batches();
  }

 private:
  struct Trained {
    TensorRef param, grad;
    Tensor momentum;
  };
  static TensorRef flat_vector(const TensorRef& t) {
    return {t.data, t.dtype, Shape{t.num_elements()}};
  }
  // All pixels of an image as one row.
  MatrixRef flat(const Tensor& t) const {
    return {t.ref().data, DType::F32, batch_, features_, features_};
  }

  int64_t batch_;
  ConvolutionBlock first_;
  ImageWindow pool_;
  ConvolutionBlock second_;
  int64_t features_;

 public:
  Tensor x, targets;

 private:
  Tensor pooled_, dpooled_, w_, dw_, logits_, parts_, loss_, max_, sum_, hit_;
  std::vector<Trained> params_;
};

struct Training {
  std::vector<float> losses;
  float held_out = 0.0f;  // share of its images that are classified right
};

void read_batch(const ImageSource& source, uint64_t first, int64_t batch, SmallNet& net) {
  const size_t bytes = size_t(source.extents().bytes());
  std::vector<uint8_t> scratch(size_t(source.scratch_bytes()));
  for (int64_t i = 0; i < batch; ++i) {
    net.targets.ref().as<int32_t>()[i] = source.read_sample(
        first + uint64_t(i), scratch, {net.x.ref().as<float>() + size_t(i) * bytes, bytes});
  }
}

Training train(std::shared_ptr<const ImageSet> images, std::shared_ptr<const ImageSet> held_out,
               const ImageAugmentation& augmentation, int steps, int threads) {
  constexpr int64_t kBatch = 32;
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  OwnStream stream(threads);
  SmallNet net(images->extents(), images->num_classes(), kBatch);
  const ImageSource source(images, 1, augmentation), test(held_out, 1, {});
  Training result;
  for (int step = 0; step < steps; ++step) {
    read_batch(source, uint64_t(step * kBatch), kBatch, net);
    result.losses.push_back(net.forward(kernels, stream, true).first);
    net.step(kernels, stream, 0.1f * float(steps - step) / float(steps));
    if (step + 20 == steps) net.take_mean_of_batches();  // statistics of the last batches count
  }
  net.take_mean_of_batches();
  const int64_t batches = held_out->size() / kBatch;
  for (int64_t i = 0; i < batches; ++i) {
    read_batch(test, uint64_t(i * kBatch), kBatch, net);
    result.held_out += net.forward(kernels, stream, false).second / float(batches);
  }
  return result;
}

TEST(ConvolutionalNet, LearnsClassesAndHasTheSameLossesForEveryNumberOfThreads) {
  const ImageExtents extents{8, 8, 3};
  const auto images = std::make_shared<SyntheticImages>(5, extents, 10, 2000);
  const auto held_out = std::make_shared<SyntheticImages>(5, extents, 10, 320, "val");
  const Training one = train(images, held_out, {}, 120, 1);
  EXPECT_GT(one.losses.front(), 1.5f);
  EXPECT_LT(one.losses.back(), 0.1f);
  EXPECT_GT(one.held_out, 0.97f);
  EXPECT_EQ(train(images, held_out, {}, 120, 2).losses, one.losses);
}

}  // namespace
}  // namespace trireme
