#include <cmath>
#include <vector>

#include "kernels/pool/pool.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

// Calls body(input pixel) for the pixels of the window of an output pixel, in their order.
template <typename Body>
void for_each_pixel(const ImageWindow& w, int64_t q, Body&& body) {
  const int64_t out_height = w.out_height(), out_width = w.out_width();
  const int64_t image = q / out_width / out_height;
  for (int64_t k = 0; k < w.size * w.size; ++k) {
    const int64_t y = q / out_width % out_height * w.stride + k / w.size - w.padding_above();
    const int64_t x = q % out_width * w.stride + k % w.size - w.padding;
    if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
    body((image * w.height + y) * w.width + x);
  }
}

// Returns the pixel that Max chooses.
int64_t chosen(const ImageWindow& w, const MatrixRef& x_PC, int64_t q, int64_t c) {
  int64_t best = -1;
  for_each_pixel(w, q, [&](int64_t p) {
    const double value = read(x_PC, p, c);
    const bool holds_nan = best >= 0 && std::isnan(read(x_PC, best, c));
    if (best < 0 || (!holds_nan && !(value <= read(x_PC, best, c)))) best = p;
  });
  return best;
}

}  // namespace

void pool_forward_ref(Stream&, const PoolForwardArgs& args) {
  check_pool_forward(args);
  const ImageWindow& w = args.window;
  for (int64_t q = 0; q < w.out_pixels(); ++q) {
    for (int64_t c = 0; c < args.x_PC.cols; ++c) {
      if (args.kind == PoolKind::Max) {
        write(args.y_QC, q, c, read(args.x_PC, chosen(w, args.x_PC, q, c), c));
        continue;
      }
      double sum = 0.0;
      for_each_pixel(w, q, [&](int64_t p) { sum += read(args.x_PC, p, c); });
      write(args.y_QC, q, c, sum / double(w.size * w.size));
    }
  }
}

void pool_backward_ref(Stream&, const PoolBackwardArgs& args) {
  check_pool_backward(args);
  const ImageWindow& w = args.window;
  for (int64_t c = 0; c < args.dx_PC.cols; ++c) {
    std::vector<double> dx_P(size_t(w.in_pixels()), 0.0);
    for (int64_t q = 0; q < w.out_pixels(); ++q) {
      const double dy = read(args.dy_QC, q, c);
      if (args.kind == PoolKind::Max) {
        dx_P[chosen(w, args.x_PC, q, c)] += dy;
      } else {
        for_each_pixel(w, q, [&](int64_t p) { dx_P[p] += dy / double(w.size * w.size); });
      }
    }
    for (int64_t p = 0; p < w.in_pixels(); ++p) {
      const double before = args.write == Write::Accumulate ? read(args.dx_PC, p, c) : 0.0;
      write(args.dx_PC, p, c, before + dx_P[p]);
    }
  }
}

}  // namespace trireme
