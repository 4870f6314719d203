#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// So many rows of a block are read twice, the second time from a cache, or are summed in one chain.
constexpr int64_t kChunkRows = 32;
// A tile has so many channels. They are neighbours in memory, so every row of it fills whole cache
// lines.
constexpr int64_t kTileChannels = 4 * kLanes;
constexpr int kMaxLevels = 40;  // of a tree: there are fewer than 2^40 blocks

// Two numbers of 16 channels: mean and squares, or two sums.
struct Pair {
  F32x16 first, second;
};

// Returns the moments of the rows of two sets together (Chan, Golub and LeVeque 1979).
TRIREME_INLINE Pair join_moments(Pair a, float a_rows, Pair b, float b_rows) {
  const float rows = a_rows + b_rows;
  const F32x16 difference = b.first - a.first;
  return {fma(difference, broadcast(b_rows / rows), a.first),
          fma(difference * difference, broadcast(a_rows * (b_rows / rows)), a.second + b.second)};
}

// Calls body(block, first channel, channels) for tiles of a matrix of blocks.
template <typename Body>
TRIREME_INLINE void for_each_block_tile(Stream& stream, int64_t blocks, int64_t cols, Body&& body) {
  const int64_t per_block = (cols + kTileChannels - 1) / kTileChannels;
  stream.team().parallel_for(blocks * per_block, [&](int64_t tile, int) {
    const int64_t c = tile % per_block * kTileChannels;
    body(tile / per_block, c, cols - c < kTileChannels ? cols - c : kTileChannels);
  });
}

template <typename T>
void block_moments(const BatchNormMomentsArgs& args, int64_t block, int64_t channel,
                   int64_t channels) {
  const int64_t cols = args.x_RC.cols, stride = args.x_RC.stride;
  float* mean_C = args.moments_B2C.as<float>() + 2 * block * cols + channel;
  float* squares_C = mean_C + cols;
  for (int64_t done = 0; done < args.block_rows; done += kChunkRows) {
    const int64_t left = args.block_rows - done, rows = left < kChunkRows ? left : kChunkRows;
    const T* x = args.x_RC.row<const T>(block * args.block_rows + done) + channel;
    for_each_vector(channels, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      F32x16 even = zeros(), odd = zeros();
      for (int64_t r = 0; r + 1 < rows; r += 2) {
        even = even + load(x + r * stride + c, lanes);
        odd = odd + load(x + (r + 1) * stride + c, lanes);
      }
      if (rows % 2 != 0) even = even + load(x + (rows - 1) * stride + c, lanes);
      const F32x16 mean = (even + odd) / broadcast(float(rows));
      F32x16 squares = zeros();
      for (int64_t r = 0; r < rows; ++r) {
        const F32x16 d = load(x + r * stride + c, lanes) - mean;
        squares = fma(d, d, squares);
      }
      Pair sum{mean, squares};
      if (done > 0) {
        sum = join_moments({load(mean_C + c, lanes), load(squares_C + c, lanes)}, float(done), sum,
                           float(rows));
      }
      store(mean_C + c, sum.first, lanes);
      store(squares_C + c, sum.second, lanes);
    });
  }
}

template <typename T>
void block_sums(const BatchNormBackwardSumsArgs& args, int64_t block, int64_t channel,
                int64_t channels) {
  const int64_t cols = args.x_RC.cols;
  float* dy_C = args.sums_B2C.as<float>() + 2 * block * cols + channel;
  float* dy_x_hat_C = dy_C + cols;
  const float* mean_C = args.mean_C.as<float>() + channel;
  const float* rstd_C = args.rstd_C.as<float>() + channel;
  for (int64_t done = 0; done < args.block_rows; done += kChunkRows) {
    const int64_t left = args.block_rows - done, rows = left < kChunkRows ? left : kChunkRows;
    const T* x = args.x_RC.row<const T>(block * args.block_rows + done) + channel;
    const T* dy = args.dy_RC.row<const T>(block * args.block_rows + done) + channel;
    for_each_vector(channels, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 mean = load(mean_C + c, lanes), rstd = load(rstd_C + c, lanes);
      F32x16 sum = zeros(), product = zeros();
      for (int64_t r = 0; r < rows; ++r) {
        const F32x16 gradient = load(dy + r * args.dy_RC.stride + c, lanes);
        const F32x16 x_hat = (load(x + r * args.x_RC.stride + c, lanes) - mean) * rstd;
        sum = sum + gradient;
        product = fma(gradient, x_hat, product);
      }
      if (done > 0) {
        sum = load(dy_C + c, lanes) + sum;
        product = load(dy_x_hat_C + c, lanes) + product;
      }
      store(dy_C + c, sum, lanes);
      store(dy_x_hat_C + c, product, lanes);
    });
  }
}

// Joins the blocks of 16 channels by a binary tree over their numbers: neighbours first. join(a, b,
// the first block of a, that of b, and the one behind b).
template <typename Lanes, typename Join>
TRIREME_INLINE Pair join_blocks(const float* sums, int64_t blocks, int64_t cols, Lanes lanes,
                                Join&& join) {
  Pair level[kMaxLevels];  // level[i] holds 2^i blocks if bit i of their number is set
  for (int64_t block = 0; block < blocks; ++block) {
    const float* first = sums + 2 * block * cols;
    Pair sum{load(first, lanes), load(first + cols, lanes)};
    int i = 0;
    for (; (block >> i & 1) != 0; ++i) {
      const int64_t end = block + 1, count = int64_t{1} << i;
      sum = join(level[i], sum, end - 2 * count, end - count, end);
    }
    level[i] = sum;
  }
  Pair sum{zeros(), zeros()};
  int64_t joined = 0;
  for (int i = 0; blocks >> i != 0; ++i) {
    if ((blocks >> i & 1) == 0) continue;
    const int64_t first = blocks - joined, count = int64_t{1} << i;
    sum = joined == 0 ? level[i] : join(level[i], sum, first - count, first, blocks);
    joined += count;
  }
  return sum;
}

template <typename T>
void forward_rows(const BatchNormForwardArgs& args, int64_t begin, int64_t end) {
  const auto* mean_C = args.mean_C.as<float>();
  const auto* rstd_C = args.rstd_C.as<float>();
  const T* gain_C = args.gain_C.as<T>();
  const T* bias_C = args.bias_C.as<T>();
  for (int64_t r = begin; r < end; ++r) {
    const T* x_C = args.x_RC.row<const T>(r);
    T* y_C = args.y_RC.row<T>(r);
    for_each_vector(args.x_RC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 x_hat =
          (load(x_C + c, lanes) - load(mean_C + c, lanes)) * load(rstd_C + c, lanes);
      store(y_C + c, fma(x_hat, load(gain_C + c, lanes), load(bias_C + c, lanes)), lanes);
    });
  }
}

template <typename T>
void backward_input_rows(const BatchNormBackwardInputArgs& args, int64_t begin, int64_t end) {
  const auto* mean_C = args.mean_C.as<float>();
  const auto* rstd_C = args.rstd_C.as<float>();
  const float* total_C = args.total_2C.as<float>();
  const float* product_C = total_C + args.x_RC.cols;
  const T* gain_C = args.gain_C.as<T>();
  const F32x16 share = broadcast(1.0f / float(args.total_rows));
  const bool accumulate = args.write == Write::Accumulate;
  for (int64_t r = begin; r < end; ++r) {
    const T* x_C = args.x_RC.row<const T>(r);
    const T* dy_C = args.dy_RC.row<const T>(r);
    T* dx_C = args.dx_RC.row<T>(r);
    for_each_vector(args.x_RC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 rstd = load(rstd_C + c, lanes);
      const F32x16 x_hat = (load(x_C + c, lanes) - load(mean_C + c, lanes)) * rstd;
      const F32x16 centered = load(dy_C + c, lanes) - load(total_C + c, lanes) * share;
      const F32x16 inner = fnma(x_hat, load(product_C + c, lanes) * share, centered);
      const F32x16 before = accumulate ? load(dx_C + c, lanes) : zeros();
      store(dx_C + c, fma(load(gain_C + c, lanes) * rstd, inner, before), lanes);
    });
  }
}

}  // namespace

void batch_norm_moments(Stream& stream, const BatchNormMomentsArgs& args) {
  check_batch_norm_moments(args);
  with_element(args.x_RC.dtype, [&]<typename T>(T) {
    for_each_block_tile(
        stream, args.x_RC.rows / args.block_rows, args.x_RC.cols,
        [&](int64_t block, int64_t c, int64_t n) { block_moments<T>(args, block, c, n); });
  });
}

void batch_norm_statistics(Stream&, const BatchNormStatisticsArgs& args) {
  check_batch_norm_statistics(args);
  const int64_t blocks = args.moments_B2C.shape[0], cols = args.moments_B2C.shape[2];
  const float rows = float(args.rows_before(blocks));
  for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    const Pair all = join_blocks(
        args.moments_B2C.as<float>() + c, blocks, cols, lanes,
        [&](Pair a, Pair b, int64_t first, int64_t middle, int64_t end) TRIREME_INLINE_LAMBDA {
          const int64_t before_b = args.rows_before(middle);
          return join_moments(a, float(before_b - args.rows_before(first)), b,
                              float(args.rows_before(end) - before_b));
        });
    const F32x16 variance = all.second / broadcast(rows);
    store(args.mean_C.as<float>() + c, all.first, lanes);
    store(args.rstd_C.as<float>() + c, broadcast(1.0f) / sqrt(variance + broadcast(args.eps)),
          lanes);
    const auto add = [&](const TensorRef& sum_C, F32x16 addend) TRIREME_INLINE_LAMBDA {
      if (!sum_C) return;
      float* sum = static_cast<float*>(sum_C.data) + c;
      store(sum, args.write == Write::Accumulate ? load(sum, lanes) + addend : addend, lanes);
    };
    add(args.mean_sum_C, all.first);
    add(args.variance_sum_C, all.second / broadcast(rows > 1.0f ? rows - 1.0f : 1.0f));
  });
}

void batch_norm_forward(Stream& stream, const BatchNormForwardArgs& args) {
  check_batch_norm_forward(args);
  with_element(args.x_RC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.x_RC.rows, args.x_RC.cols,
                      [&](int64_t begin, int64_t end, int) { forward_rows<T>(args, begin, end); });
  });
}

void batch_norm_backward_sums(Stream& stream, const BatchNormBackwardSumsArgs& args) {
  check_batch_norm_backward_sums(args);
  with_element(args.x_RC.dtype, [&]<typename T>(T) {
    for_each_block_tile(
        stream, args.x_RC.rows / args.block_rows, args.x_RC.cols,
        [&](int64_t block, int64_t c, int64_t n) { block_sums<T>(args, block, c, n); });
  });
}

void batch_norm_backward_weight(Stream&, const BatchNormBackwardWeightArgs& args) {
  check_batch_norm_backward_weight(args);
  const int64_t blocks = args.sums_B2C.shape[0], cols = args.sums_B2C.shape[2];
  float* total_C = args.total_2C.as<float>();
  for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    const Pair all =
        join_blocks(args.sums_B2C.as<float>() + c, blocks, cols, lanes,
                    [&](Pair a, Pair b, int64_t, int64_t, int64_t) TRIREME_INLINE_LAMBDA {
                      return Pair{a.first + b.first, a.second + b.second};
                    });
    store(total_C + c, all.first, lanes);
    store(total_C + cols + c, all.second, lanes);
    const auto add = [&](const TensorRef& sum_C, F32x16 sum) TRIREME_INLINE_LAMBDA {
      if (!sum_C) return;
      with_state(sum_C.dtype, [&]<typename S>(S) TRIREME_INLINE_LAMBDA {
        S* to = static_cast<S*>(sum_C.data) + c;
        store(to, args.write == Write::Accumulate ? load(to, lanes) + sum : sum, lanes);
      });
    };
    add(args.dbias_C, all.first);
    add(args.dgain_C, all.second);
  });
}

void batch_norm_backward_input(Stream& stream, const BatchNormBackwardInputArgs& args) {
  check_batch_norm_backward_input(args);
  with_element(args.x_RC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.x_RC.rows, args.x_RC.cols, [&](int64_t begin, int64_t end, int) {
      backward_input_rows<T>(args, begin, end);
    });
  });
}

}  // namespace trireme::TRIREME_ISA
