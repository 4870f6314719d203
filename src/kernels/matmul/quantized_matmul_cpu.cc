#include <algorithm>
#include <type_traits>

#include "kernels/kernels_cpu.h"
#include "kernels/matmul/row_access.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kBytesAhead = 2048;  // that are prefetched; beyond a row lies the next one

// Two things are widened to fp32: the rows of x for all threads, and the scales of a row of w.
// scale_B has room for whole vectors.
struct Widened {
  const float* x_TC;
  float* scale_B;
};

// `to` has room for whole vectors.
template <typename T>
TRIREME_INLINE void widen_row(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) store(to + i, load_row(from + i, count - i));
}

TRIREME_INLINE const int8_t* bytes_of_row(const QuantizedMatrix& w, int64_t row) {
  return static_cast<const int8_t*>(w.q_FC.data) + row * w.q_FC.stride;
}

// Writes a row of w times kRows rows of x to `sums`. A block of bytes is multiplied as it is, and
// its sums, which must be finite in fp32, are then scaled and added to a chain. Rows of w follow
// each other in memory.
template <int kRows>
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
      chain[t] = fma(fma(high, load(x + kLanes), low * load(x)), scale, chain[t]);
    }
  };
  int64_t block = 0;
  for (; block + 4 <= num_blocks; block += 4) {
    __builtin_prefetch(q_C + block * kScaleBlock + kBytesAhead);
    __builtin_prefetch(q_C + block * kScaleBlock + kBytesAhead + 64);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) add(block + i);
  }
  for (; block < num_blocks; ++block) add(block);
#pragma GCC unroll 4
  for (int t = 0; t < kRows; ++t) sums[t] = reduce_sum(chain[t]);
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

// Writes the products of a row of w and all rows of x to a column of sums_TF.
TRIREME_INLINE void multiply_weight_row(const QuantizedMatmulArgs& args, int64_t f,
                                        const Widened& widened, float* sums_TF) {
  const int64_t num_rows = args.x_TC.rows, C = args.x_TC.cols, B = args.w.scale_FB.cols;
  widen_row(args.w.scale_FB.row<f16>(f), B, widened.scale_B);
  const auto multiply = [&]<int kRows>(int64_t first, std::integral_constant<int, kRows>) {
    float sums[kRows];
    dot_rows<kRows>(bytes_of_row(args.w, f), widened.scale_B, B, widened.x_TC + first * C, C, sums);
    for (int64_t t = 0; t < kRows; ++t) sums_TF[(first + t) * kLanes] = sums[t];
  };
  int64_t t = 0;
  for (; t + 4 <= num_rows; t += 4) multiply(t, std::integral_constant<int, 4>());
  for (; t < num_rows; ++t) multiply(t, std::integral_constant<int, 1>());
}

template <typename T, typename Y>
void multiply_rows(const QuantizedMatmulArgs& args, int64_t begin, int64_t end,
                   const Widened& widened) {
  alignas(64) float sums_TF[QuantizedMatmulArgs::kFewRows * kLanes] = {};
  for (int64_t first = begin; first < end; first += kLanes) {
    const int64_t count = std::min(kLanes, end - first);
    for (int64_t f = 0; f < count; ++f) multiply_weight_row(args, first + f, widened, sums_TF + f);
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
    multiply_rows<T, Y>(args, begin, end, {x_TC, thread == 0 ? own + num_rows * C : own});
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
  const int64_t floats = args.x_TC.rows * args.x_TC.cols + args.w.scale_FB.cols + kLanes;
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
