#include "kernels/kernels_cpu.h"
#include "kernels/simd_philox.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kVectorElements = 64;  // elements of 16 Philox counters

// The uniform numbers of kVectors * 64 elements of a sample, starting at `first`, a multiple of 4.
template <int kVectors>
TRIREME_INLINE void uniforms_of(RngKey key, uint64_t sample, uint64_t first, float* uniform) {
  PhiloxWords words[kVectors];
  philox_of_groups(key, sample, first / 4, words);
#pragma GCC unroll 2
  for (const PhiloxWords& vector : words) {
    F32x16 a = uniform_float(vector.word[0]), b = uniform_float(vector.word[1]);
    F32x16 c = uniform_float(vector.word[2]), d = uniform_float(vector.word[3]);
    transpose_blocks(a, b, c, d);
    store(uniform, a);
    store(uniform + kLanes, b);
    store(uniform + 2 * kLanes, c);
    store(uniform + 3 * kLanes, d);
    uniform += kVectorElements;
  }
}

// Processes `count` elements of the sample, starting at `element`.
template <int kVectors, typename T>
void drop_block(const DropoutArgs& args, uint64_t sample, uint64_t element, int64_t count,
                const T* x, const T* residual, T* y) {
  float uniform[kVectors * kVectorElements];
  uniforms_of<kVectors>(args.key, sample, element - element % 4, uniform);
  const float* first = uniform + element % 4;
  const F32x16 scale = broadcast(1.0f / (1.0f - args.probability));
  for_each_vector(count, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    const Mask16 dropped = load(first + c, lanes) < broadcast(args.probability);
    const F32x16 kept = select(dropped, zeros(), load(x + c, lanes));
    const F32x16 base = residual ? load(residual + c, lanes) : zeros();
    store(y + c, fma(kept, scale, base), lanes);
  });
}

template <typename T>
void drop_rows(const DropoutArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.x_TC.cols;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t row = args.first_row + t;
    const uint64_t sample = args.first_sample + uint64_t(row / args.rows_per_sample);
    const int64_t position = args.positions.of(row % args.rows_per_sample);
    const uint64_t first = uint64_t(position * args.columns_of_row() + args.first_column);
    const T* x_C = args.x_TC.row<T>(t);
    const T* residual_C = args.residual_TC ? args.residual_TC.row<T>(t) : nullptr;
    T* y_C = args.y_TC.row<T>(t);
    for (int64_t c = 0; c < cols;) {
      const int64_t skipped = int64_t((first + uint64_t(c)) % 4);
      const bool wide = cols - c + skipped > kVectorElements;
      const int64_t usable = (wide ? 2 : 1) * kVectorElements - skipped;
      const int64_t count = usable < cols - c ? usable : cols - c;
      const auto drop = wide ? drop_block<2, T> : drop_block<1, T>;
      drop(args, sample, first + uint64_t(c), count, x_C + c, residual_C ? residual_C + c : nullptr,
           y_C + c);
      c += count;
    }
  }
}

}  // namespace

void dropout(Stream& stream, const DropoutArgs& args) {
  check_dropout(args);
  with_element(args.x_TC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.x_TC.rows, args.x_TC.cols,
                      [&](int64_t begin, int64_t end, int) { drop_rows<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
