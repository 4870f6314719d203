#include "kernels/fp32_math.h"
#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr float kLowest = -3.40282347e38f;
// Elements per block: their maximum and the sum of their exponentials are computed while they are
// in L1.
constexpr int64_t kBlock = 4096;

TRIREME_INLINE float max_of(const float* x, int64_t n) {
  F32x16 max0 = broadcast(kLowest), max1 = max0, max2 = max0, max3 = max0;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    max0 = max(load(x + i), max0);
    max1 = max(load(x + i + kLanes), max1);
    max2 = max(load(x + i + 2 * kLanes), max2);
    max3 = max(load(x + i + 3 * kLanes), max3);
  }
  for_each_vector(n - i, [&](int64_t j, auto lanes) TRIREME_INLINE_LAMBDA {
    max0 = max(keep_lanes(load(x + i + j, lanes), lanes, broadcast(kLowest)), max0);
  });
  return reduce_max(max(max(max0, max1), max(max2, max3)));
}

TRIREME_INLINE float exp_of(float x) { return first_lane(exp_f32(broadcast(x))); }
TRIREME_INLINE float log_of(float x) { return first_lane(log_f32(broadcast(x))); }

// Takes a row block by block. The exponentials of each block are relative to the largest number
// seen so far and are summed while the block is in L1.
struct Softmax {
  float max = kLowest;
  float sum = 0.0f;
};

TRIREME_INLINE int64_t block_size(int64_t begin, int64_t cols) {
  return cols - begin < kBlock ? cols - begin : kBlock;
}

TRIREME_INLINE float sum_of_exp(const float* x, float max, int64_t n) {
  float sum[1];
  sum_row(n, sum, [&](int64_t v, auto lanes, F32x16* chain) TRIREME_INLINE_LAMBDA {
    chain[0] = chain[0] + keep_lanes(exp_f32(load(x + v, lanes) - broadcast(max)), lanes, zeros());
  });
  return sum[0];
}

TRIREME_INLINE Softmax softmax_of(const float* x_V, int64_t cols) {
  Softmax row;
  for (int64_t begin = 0; begin < cols; begin += kBlock) {
    const int64_t n = block_size(begin, cols);
    const float block_max = max_of(x_V + begin, n);
    if (block_max > row.max) {
      row.sum *= exp_of(row.max - block_max);
      row.max = block_max;
    }
    row.sum += sum_of_exp(x_V + begin, row.max, n);
  }
  return row;
}

void rows_of_parts(const SoftmaxPartArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.logits_TV.cols;
  for (int64_t t = begin; t < end; ++t) {
    const float* x_V = args.logits_TV.row<float>(t);
    const int32_t target = static_cast<const int32_t*>(args.targets_T.data)[t];
    const int64_t col = target - args.first_token;
    const bool ignored = target == kIgnoredTarget;
    const Softmax row = ignored ? Softmax{0.0f, 1.0f} : softmax_of(x_V, cols);
    args.part_3T.row<float>(0)[t] = row.max;
    args.part_3T.row<float>(1)[t] = row.sum;
    args.part_3T.row<float>(2)[t] = !ignored && col >= 0 && col < cols ? x_V[col] : 0.0f;
  }
}

void join_parts(const CrossEntropyArgs& args, int64_t begin, int64_t end) {
  const int64_t rows = args.parts_3RT.rows;
  for (int64_t t = begin; t < end; ++t) {
    const auto part = [&](int64_t row)
                          TRIREME_INLINE_LAMBDA { return args.parts_3RT.row<float>(row)[t]; };
    float max = part(0);
    for (int64_t r = 3; r < rows; r += 3) max = part(r) > max ? part(r) : max;
    float sum = 0.0f, target_logit = 0.0f;
    for (int64_t r = 0; r < rows; r += 3) {
      sum += part(r + 1) * exp_of(part(r) - max);
      target_logit += part(r + 2);
    }
    const bool ignored = static_cast<const int32_t*>(args.targets_T.data)[t] == kIgnoredTarget;
    // log_of cannot take a sum that is not finite; the last term carries it into the loss.
    const float loss = log_of(sum) + (max - target_logit) + (sum - sum);
    static_cast<float*>(args.loss_T.data)[t] = ignored ? 0.0f : loss;
    static_cast<float*>(args.max_T.data)[t] = ignored ? 0.0f : max;
    static_cast<float*>(args.sum_T.data)[t] = ignored ? 1.0f : sum;
    if (args.hit_T) {
      static_cast<float*>(args.hit_T.data)[t] = !ignored && target_logit >= max ? 1.0f : 0.0f;
    }
  }
}

// Computes dlogits = softmax - onehot in the same blocks.
template <typename T>
void rows_of_gradient(const CrossEntropyGradientArgs& args, int64_t first, int64_t last) {
  const int64_t cols = args.logits_TV.cols;
  for (int64_t t = first; t < last; ++t) {
    const float* x_V = args.logits_TV.row<float>(t);
    const int32_t target = static_cast<const int32_t*>(args.targets_T.data)[t];
    T* dx_V = args.dlogits_TV.row<T>(t);
    if (target == kIgnoredTarget) {
      __builtin_memset(static_cast<void*>(dx_V), 0, size_t(cols) * sizeof(T));
      continue;
    }
    const float row_max = static_cast<const float*>(args.max_T.data)[t];
    const float row_sum = static_cast<const float*>(args.sum_T.data)[t];
    const int64_t col = target - args.first_token;
    const float target_logit =
        col >= 0 && col < cols ? x_V[col] : 0.0f;  // before the row is overwritten
    float max = kLowest;
    for (int64_t begin = 0; begin < cols; begin += kBlock) {
      const int64_t n = block_size(begin, cols);
      const float block_max = max_of(x_V + begin, n);
      if (block_max > max) max = block_max;
      const F32x16 scale = broadcast(exp_of(max - row_max) / row_sum * args.scale);
      for_each_vector(n, [&](int64_t v, auto lanes) TRIREME_INLINE_LAMBDA {
        const F32x16 e = exp_f32(load(x_V + begin + v, lanes) - broadcast(max));
        store(dx_V + begin + v, e * scale, lanes);
      });
      if (begin <= col && col < begin + n) {
        const F32x16 share = exp_f32(broadcast(target_logit) - broadcast(max)) * scale;
        store(dx_V + col, share - broadcast(args.scale), FirstLanes{1});
      }
    }
  }
}

}  // namespace

void softmax_part(Stream& stream, const SoftmaxPartArgs& args) {
  check_softmax_part(args);
  for_each_row_tile(stream, args.logits_TV.rows, args.logits_TV.cols,
                    [&](int64_t begin, int64_t end, int) { rows_of_parts(args, begin, end); });
}

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  check_cross_entropy(args);
  for_each_row_tile(stream, args.parts_3RT.cols, args.parts_3RT.rows,
                    [&](int64_t begin, int64_t end, int) { join_parts(args, begin, end); });
}

void cross_entropy_gradient(Stream& stream, const CrossEntropyGradientArgs& args) {
  check_cross_entropy_gradient(args);
  with_element(args.dlogits_TV.dtype, [&]<typename T>(T) {
    for_each_row_tile(
        stream, args.logits_TV.rows, args.logits_TV.cols,
        [&](int64_t begin, int64_t end, int) { rows_of_gradient<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
