#include <algorithm>
#include <type_traits>

#include "kernels/kernels_cpu.h"
#include "kernels/matmul/row_access.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// Bytes between what is multiplied and what is prefetched, at least. Beyond a row lies the next
// one.
constexpr int64_t kBytesAhead = 2048;
constexpr int kBlocksAtOnce = 4;

// Rows of w that are multiplied at once by a single row of x, because a multiply-add of a chain of
// sums waits for the one before.
constexpr int kWeightRowsAtOnce = 2;

// Two things are widened to fp32: the rows of x for all threads, and the scales of up to
// kWeightRowsAtOnce rows of w.
struct Widened {
  const float* x_TC;
  float* scale_FB;
  int64_t scale_stride;  // from one row to the next, in whole vectors
};
constexpr int64_t scale_stride_of(int64_t num_blocks) {
  return (num_blocks + kLanes - 1) / kLanes * kLanes;
}

// `to` has room for whole vectors.
template <typename T>
TRIREME_INLINE void widen_row(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) store(to + i, load_row(from + i, count - i));
}

TRIREME_INLINE const int8_t* bytes_of_row(const QuantizedMatrix& w, int64_t row) {
  return static_cast<const int8_t*>(w.q_FC.data) + row * w.q_FC.stride;
}

template <int64_t kBytes>
TRIREME_INLINE void prefetch_bytes(const int8_t* from) {
#pragma GCC unroll 4
  for (int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(from + at);
}

// Returns the sums of the 32 products of a block, two in each lane. These sums must be finite in
// fp32.
TRIREME_INLINE F32x16 block_sums(F32x16 low, F32x16 high, F32x16 x_low, F32x16 x_high) {
  return fma(high, x_high, low * x_low);
}

// Rows of x that share the numbers of a row of w.
constexpr int kRows = 4;

// Writes a row of w times kRows rows of x to `sums`, kLanes apart. A block of bytes is multiplied
// as it is, and its sums are then scaled and added to a chain.
TRIREME_INLINE void dot_rows(const int8_t* q_C, const float* scale_B, int64_t num_blocks,
                             const float* x_TC, int64_t C, float* sums) {
  static_assert(kScaleBlock == 2 * kLanes);
  F32x16 chain[kRows];
#pragma GCC unroll 4
  for (int t = 0; t < kRows; ++t) chain[t] = zeros();
  const auto add = [&](int64_t block) TRIREME_INLINE_LAMBDA {
    const int64_t c = block * kScaleBlock;
    const F32x16 scale = broadcast(scale_B[block]);
    const F32x16 low = load_int8(q_C + c), high = load_int8(q_C + c + kLanes);
#pragma GCC unroll 4
    for (int t = 0; t < kRows; ++t) {
      const float* const x = x_TC + t * C + c;
      chain[t] = fma(block_sums(low, high, load(x), load(x + kLanes)), scale, chain[t]);
    }
  };
  int64_t block = 0;
  for (; block + kBlocksAtOnce <= num_blocks; block += kBlocksAtOnce) {
    prefetch_bytes<kBlocksAtOnce * kScaleBlock>(q_C + block * kScaleBlock + kBytesAhead);
#pragma GCC unroll 4
    for (int i = 0; i < kBlocksAtOnce; ++i) add(block + i);
  }
  for (; block < num_blocks; ++block) add(block);
#pragma GCC unroll 4
  for (int t = 0; t < kRows; ++t) sums[t * kLanes] = reduce_sum(chain[t]);
}

// Writes kRowsOfW rows of w, `stride` bytes apart, times one row of x to `sums`, with the bits of
// dot_rows.
template <int kRowsOfW>
TRIREME_INLINE void dot_weight_rows(const int8_t* q_FC, int64_t stride, const Widened& widened,
                                    int64_t num_blocks, const float* x_C, float* sums) {
  F32x16 chain[kRowsOfW];
#pragma GCC unroll 2
  for (int f = 0; f < kRowsOfW; ++f) chain[f] = zeros();
  const auto add = [&](int64_t block) TRIREME_INLINE_LAMBDA {
    const int64_t c = block * kScaleBlock;
    F32x16 x_low = load(x_C + c), x_high = load(x_C + c + kLanes);
    keep_in_registers(x_low);
    keep_in_registers(x_high);
#pragma GCC unroll 2
    for (int f = 0; f < kRowsOfW; ++f) {
      const F32x16 scale = broadcast(widened.scale_FB[f * widened.scale_stride + block]);
      const int8_t* const q = q_FC + f * stride + c;
      chain[f] =
          fma(block_sums(load_int8(q), load_int8(q + kLanes), x_low, x_high), scale, chain[f]);
    }
  };
  // The rows after these are prefetched in the order of memory, in which they follow each other.
  const int8_t* ahead = q_FC + std::max(kBytesAhead, kRowsOfW * stride);
  int64_t block = 0;
  for (; block + kBlocksAtOnce <= num_blocks; block += kBlocksAtOnce) {
    constexpr int64_t kBytes = kRowsOfW * kBlocksAtOnce * kScaleBlock;
    prefetch_bytes<kBytes>(ahead);
    ahead += kBytes;
#pragma GCC unroll 4
    for (int i = 0; i < kBlocksAtOnce; ++i) add(block + i);
  }
  for (; block < num_blocks; ++block) add(block);
#pragma GCC unroll 2
  for (int f = 0; f < kRowsOfW; ++f) sums[f] = reduce_sum(chain[f]);
}

// Writes `count` columns of y, at most kLanes.
template <typename T, typename Y>
TRIREME_INLINE void write_sums(const QuantizedMatmulArgs& args, int64_t f, int64_t count,
                               const float* sums_TF) {
  for (int64_t t = 0; t < args.x_TC.rows; ++t) {
    F32x16 sum = load(sums_TF + t * kLanes);
    if (args.bias_F) sum = sum + load_row(static_cast<const T*>(args.bias_F.data) + f, count);
    if (args.residual_TF) sum = sum + load_row(args.residual_TF.row<const Y>(t) + f, count);
    Y* const y = args.y_TF.row<Y>(t) + f;
    count == kLanes ? store(y, sum) : store(y, sum, FirstLanes{count});
  }
}

// Writes the products of kRowsOfW rows of w, from f on, and all rows of x to columns of sums_TF.
template <int kRowsOfW>
TRIREME_INLINE void multiply_weight_rows(const QuantizedMatmulArgs& args, int64_t f,
                                         const Widened& widened, float* sums_TF) {
  const int64_t num_rows = args.x_TC.rows, C = args.x_TC.cols, B = args.w.scale_FB.cols;
  const int8_t* const q_FC = bytes_of_row(args.w, f);
  const int64_t stride = args.w.q_FC.stride;
  for (int i = 0; i < kRowsOfW; ++i) {
    widen_row(args.w.scale_FB.row<f16>(f + i), B, widened.scale_FB + i * widened.scale_stride);
  }
  int64_t t = 0;
  for (; t + kRows <= num_rows; t += kRows) {
    for (int i = 0; i < kRowsOfW; ++i) {
      dot_rows(q_FC + i * stride, widened.scale_FB + i * widened.scale_stride, B,
               widened.x_TC + t * C, C, sums_TF + t * kLanes + i);
    }
  }
  for (; t < num_rows; ++t) {
    dot_weight_rows<kRowsOfW>(q_FC, stride, widened, B, widened.x_TC + t * C, sums_TF + t * kLanes);
  }
}

template <typename T, typename Y>
void multiply_rows(const QuantizedMatmulArgs& args, int64_t begin, int64_t end,
                   const Widened& widened) {
  alignas(64) float sums_TF[QuantizedMatmulArgs::kFewRows * kLanes] = {};
  for (int64_t first = begin; first < end; first += kLanes) {
    const int64_t count = std::min(kLanes, end - first);
    int64_t f = 0;
    for (; f + kWeightRowsAtOnce <= count; f += kWeightRowsAtOnce) {
      multiply_weight_rows<kWeightRowsAtOnce>(args, first + f, widened, sums_TF + f);
    }
    for (; f < count; ++f) multiply_weight_rows<1>(args, first + f, widened, sums_TF + f);
    write_sums<T, Y>(args, first, count, sums_TF);
  }
}

template <typename T, typename Y>
void multiply_few(Stream& stream, const QuantizedMatmulArgs& args) {
  const int64_t num_rows = args.x_TC.rows, C = args.x_TC.cols;
  float* const x_TC = reinterpret_cast<float*>(stream.workspace(0));
  for (int64_t t = 0; t < num_rows; ++t) widen_row(args.x_TC.row<T>(t), C, x_TC + t * C);
  const int64_t grain = std::max<int64_t>(1, kRowTileBytes / C / kLanes) * kLanes;
  for_each_tile(stream, args.y_TF.cols, grain, [&](int64_t begin, int64_t end, int thread) {
    float* const own = reinterpret_cast<float*>(stream.workspace(thread));
    multiply_rows<T, Y>(
        args, begin, end,
        {x_TC, thread == 0 ? own + num_rows * C : own, scale_stride_of(args.w.scale_FB.cols)});
  });
}

template <typename T>
void unpack(Stream& stream, const QuantizedMatmulArgs& args) {
  for_each_row_tile(
      stream, args.w.q_FC.rows, args.w.q_FC.cols, [&](int64_t begin, int64_t end, int) {
        for (int64_t f = begin; f < end; ++f) {
          const int8_t* const q_C = bytes_of_row(args.w, f);
          const f16* const scale_B = args.w.scale_FB.row<f16>(f);
          T* const w_C = args.unpacked_FC.row<T>(f);
          for (int64_t c = 0; c < args.w.q_FC.cols; c += kLanes) {
            store(w_C + c, load_int8(q_C + c) * broadcast(load_scalar(scale_B + c / kScaleBlock)));
          }
        }
      });
}

}  // namespace

void quantized_matmul(Stream& stream, const QuantizedMatmulArgs& args) {
  check_quantized_matmul(args);
  const int64_t floats =
      args.x_TC.rows * args.x_TC.cols + kWeightRowsAtOnce * scale_stride_of(args.w.scale_FB.cols);
  const bool is_few = args.x_TC.rows <= QuantizedMatmulArgs::kFewRows;
  TRIREME_CHECK(!is_few || floats * int64_t{sizeof(float)} <= kWorkspaceBytesPerThread,
                "rows of x do not fit into the workspace");
  with_element(args.x_TC.dtype, [&]<typename T>(T) {
    if (!is_few) {
      unpack<T>(stream, args);
      matmul(stream, {.form = MatmulForm::NT,
                      .a = args.x_TC,
                      .b = args.unpacked_FC,
                      .c = args.y_TF,
                      .bias_N = args.bias_F,
                      .residual_MN = args.residual_TF});
      return;
    }
    with_element(args.y_TF.dtype, [&]<typename Y>(Y) { multiply_few<T, Y>(stream, args); });
  });
}

}  // namespace trireme::TRIREME_ISA
