#include "kernels/kernels_cpu.h"
#include "kernels/row_sums.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
void dot_rows(const RowDotsArgs& args, int64_t begin, int64_t end) {
  const float* x_K = static_cast<const float*>(args.x_K.data);
  for (int64_t m = begin; m < end; ++m) {
    const T* a_K = args.a_MK.row<T>(m);
    float sums[2];  // of the products, of the squares
    sum_row(args.a_MK.cols, sums,
            [&](int64_t k, auto lanes, F32x16(&chain)[2]) TRIREME_INLINE_LAMBDA {
              const F32x16 a = load(a_K + k, lanes);
              chain[0] = fma(a, load(x_K + k, lanes), chain[0]);
              chain[1] = fma(a, a, chain[1]);
            });
    static_cast<float*>(args.y_M.data)[m] = sums[0];
    static_cast<float*>(args.squares_M.data)[m] = sums[1];
  }
}

// sums_K is overwritten with the chunk's sums of the products and, behind them, of the squares.
template <typename T>
void combine_rows_of(const RowCombinationArgs& args, const RowChunk& chunk, float* sums_K) {
  const float* x_M = static_cast<const float*>(args.x_M.data);
  float* squares_K = sums_K + chunk.cols;
  for (int64_t m = chunk.begin; m < chunk.end; ++m) {
    const T* a_K = args.a_MK.row<T>(m) + chunk.first_col;
    const F32x16 x = broadcast(x_M[m]);
    const bool first = m == chunk.begin;
    for_each_vector(chunk.cols, [&](int64_t k, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 a = load(a_K + k, lanes);
      store(sums_K + k, fma(x, a, first ? zeros() : load(sums_K + k, lanes)), lanes);
      store(squares_K + k, fma(a, a, first ? zeros() : load(squares_K + k, lanes)), lanes);
    });
  }
}

}  // namespace

void row_dots(Stream& stream, const RowDotsArgs& args) {
  check_row_dots(args);
  with_element(args.a_MK.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.a_MK.rows, args.a_MK.cols,
                      [&](int64_t begin, int64_t end, int) { dot_rows<T>(args, begin, end); });
  });
}

void row_combination(Stream& stream, const RowCombinationArgs& args) {
  check_row_combination(args);
  float* const sums_K[] = {static_cast<float*>(args.y_K.data),
                           static_cast<float*>(args.squares_K.data)};
  with_element(args.a_MK.dtype, [&]<typename T>(T) {
    sum_rows(stream, args.a_MK.rows, args.a_MK.cols, Write::Overwrite, sums_K,
             [&](const RowChunk& chunk, float* sums) { combine_rows_of<T>(args, chunk, sums); });
  });
}

}  // namespace trireme::TRIREME_ISA
