#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
void rotate_rows(const RopeArgs& args, int64_t begin, int64_t end) {
  const int64_t half = args.head_dim / 2;
  // The inverse flips the sign of sin.
  const U32x16 flip = broadcast_u32(args.rotation == Rotation::Forward ? 0u : 1u << 31);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t position = args.position_of(t);
    const float* cos_D2 = static_cast<const float*>(args.cos_SD2.data) + position * half;
    const float* sin_D2 = static_cast<const float*>(args.sin_SD2.data) + position * half;
    T* x_HD = args.x_T_HD.row<T>(t);
    for (int64_t head = 0; head < args.x_T_HD.cols; head += args.head_step()) {
      for_each_vector(half, [&](int64_t j, auto lanes) TRIREME_INLINE_LAMBDA {
        const F32x16 cos = load(cos_D2 + j, lanes);
        const F32x16 sin = from_bits(bits_of(load(sin_D2 + j, lanes)) ^ flip);
        const F32x16 a = load(x_HD + head + j, lanes);
        const F32x16 b = load(x_HD + head + half + j, lanes);
        store(x_HD + head + j, fnma(b, sin, a * cos), lanes);
        store(x_HD + head + half + j, fma(a, sin, b * cos), lanes);
      });
    }
  }
}

}  // namespace

void rope(Stream& stream, const RopeArgs& args) {
  check_rope(args);
  with_element(args.x_T_HD.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.x_T_HD.rows, args.x_T_HD.cols,
                      [&](int64_t begin, int64_t end, int) { rotate_rows<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
