#include "kernels/ref_access.h"
#include "kernels/rope/rope.h"

namespace trireme {

void rope_ref(Stream&, const RopeArgs& args) {
  check_rope(args);
  const int64_t half = args.head_dim / 2;
  const double direction = args.rotation == Rotation::Forward ? 1.0 : -1.0;
  for (int64_t t = 0; t < args.x_T_HD.rows; ++t) {
    const int64_t position = args.position_of(t);
    for (int64_t head = 0; head < args.x_T_HD.cols; head += args.head_step()) {
      for (int64_t j = 0; j < half; ++j) {
        const double cos = read(args.cos_SD2, position * half + j);
        const double sin = direction * read(args.sin_SD2, position * half + j);
        const double a = read(args.x_T_HD, t, head + j);
        const double b = read(args.x_T_HD, t, head + half + j);
        write(args.x_T_HD, t, head + j, a * cos - b * sin);
        write(args.x_T_HD, t, head + half + j, b * cos + a * sin);
      }
    }
  }
}

}  // namespace trireme
