#include "kernels/fp32_math.h"
#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr float kLowest = -3.40282347e38f;
// Elements whose maximum is taken, and whose exponentials are summed, while they are in L1.
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

// A row is taken block by block: each block's exponentials are those of x minus the greatest number
// seen so far, and stay in `exp_V` (in L2) for the gradients. One pass over memory.
constexpr int64_t kMaxBlocks = kMaxVocabSize / kBlock;
struct Softmax {
  float max = kLowest;
  float sum = 0.0f;
  float block_max[kMaxBlocks];  // what each block's exponentials are relative to
};

template <bool kKeepsExp>
TRIREME_INLINE float sum_of_exp(const float* x, float max, int64_t n, float* exp) {
  float sum[1];
  sum_row(n, sum, [&](int64_t v, auto lanes, F32x16* chain) TRIREME_INLINE_LAMBDA {
    const F32x16 e = keep_lanes(exp_f32(load(x + v, lanes) - broadcast(max)), lanes, zeros());
    if constexpr (kKeepsExp) store(exp + v, e, lanes);
    chain[0] = chain[0] + e;
  });
  return sum[0];
}

template <bool kKeepsExp>
TRIREME_INLINE void softmax_of(const float* x_V, int64_t vocab_size, float* exp_V, Softmax& row) {
  row.max = kLowest;
  row.sum = 0.0f;
  for (int64_t begin = 0; begin < vocab_size; begin += kBlock) {
    const int64_t n = vocab_size - begin < kBlock ? vocab_size - begin : kBlock;
    const float block_max = max_of(x_V + begin, n);
    if (block_max > row.max) {
      row.sum *= exp_of(row.max - block_max);
      row.max = block_max;
    }
    row.sum += sum_of_exp<kKeepsExp>(x_V + begin, row.max, n, exp_V + begin);
    row.block_max[begin / kBlock] = row.max;
  }
}

// dlogits = softmax - onehot.
template <typename T>
TRIREME_INLINE void write_gradient(const float* exp_V, int64_t vocab_size, const Softmax& row,
                                   int32_t target, T* dx_V) {
  for (int64_t begin = 0; begin < vocab_size; begin += kBlock) {
    const int64_t n = vocab_size - begin < kBlock ? vocab_size - begin : kBlock;
    const F32x16 scale = broadcast(exp_of(row.block_max[begin / kBlock] - row.max) / row.sum);
    for_each_vector(n, [&](int64_t v, auto lanes) TRIREME_INLINE_LAMBDA {
      store(dx_V + begin + v, load(exp_V + begin + v, lanes) * scale, lanes);
    });
    if (begin <= target && target < begin + n) {
      const F32x16 share = broadcast(exp_V[target]) * scale;
      store(dx_V + target, share - broadcast(1.0f), FirstLanes{1});
    }
  }
}

template <typename T>
void rows_of_loss(const CrossEntropyArgs& args, int64_t begin, int64_t end, float* exp_V) {
  const int64_t vocab_size = args.logits_TV.cols;
  Softmax row;
  for (int64_t t = begin; t < end; ++t) {
    const float* x_V = args.logits_TV.row<float>(t);
    const int32_t target = static_cast<const int32_t*>(args.targets_T.data)[t];
    float* loss = static_cast<float*>(args.loss_T.data) + t;
    T* dx_V = args.dlogits_TV ? args.dlogits_TV.row<T>(t) : nullptr;
    if (target == kIgnoredTarget) {
      *loss = 0.0f;
      if (dx_V) __builtin_memset(static_cast<void*>(dx_V), 0, size_t(vocab_size) * sizeof(T));
      continue;
    }
    if (dx_V) {
      softmax_of<true>(x_V, vocab_size, exp_V, row);
    } else {
      softmax_of<false>(x_V, vocab_size, exp_V, row);
    }
    // A sum that is not finite has no logarithm here; the last term carries it into the loss.
    *loss = log_of(row.sum) + (row.max - x_V[target]) + (row.sum - row.sum);
    if (dx_V) write_gradient(exp_V, vocab_size, row, target, dx_V);
  }
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  check_cross_entropy(args);
  with_element(args.dlogits_TV.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.logits_TV.rows, args.logits_TV.cols,
                      [&](int64_t begin, int64_t end, int thread) {
                        float* exp_V = reinterpret_cast<float*>(stream.workspace(thread));
                        rows_of_loss<T>(args, begin, end, exp_V);
                      });
  });
}

}  // namespace trireme::TRIREME_ISA
