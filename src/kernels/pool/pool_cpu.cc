#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// The pixels of a window that are in the image: [first, end) of each dim, from the image's corner.
struct Inside {
  int64_t first_row, end_row, first_col, end_col;
};
TRIREME_INLINE Inside inside(const ImageWindow& w, int64_t out_row, int64_t out_col) {
  const int64_t row = out_row * w.stride - w.padding, col = out_col * w.stride - w.padding;
  return {row < 0 ? 0 : row, row + w.size < w.height ? row + w.size : w.height, col < 0 ? 0 : col,
          col + w.size < w.width ? col + w.size : w.width};
}

// The largest of 16 channels so far, and the number of its pixel in the image.
struct Best {
  F32x16 value;
  U32x16 pixel;
};

// Visits the pixels of a window in their order. The first pixel always counts, a NaN stays.
template <typename T, typename Lanes>
TRIREME_INLINE Best largest(const T* image, int64_t stride, int64_t width, const Inside& window,
                            Lanes lanes) {
  Best best{zeros(), broadcast_u32(0)};
  bool is_first = true;
  for (int64_t row = window.first_row; row < window.end_row; ++row) {
    for (int64_t col = window.first_col; col < window.end_col; ++col) {
      const int64_t pixel = row * width + col;
      const F32x16 x = load(image + pixel * stride, lanes);
      const U32x16 here = broadcast_u32(uint32_t(pixel));
      if (is_first) {
        best = {x, here};
      } else {
        const Mask16 is_smaller = x <= best.value, has_nan = is_nan(best.value);
        best.pixel = select(has_nan, best.pixel, select(is_smaller, best.pixel, here));
        best.value = select(has_nan, best.value, select(is_smaller, best.value, x));
      }
      is_first = false;
    }
  }
  return best;
}

template <typename T, typename Lanes>
TRIREME_INLINE F32x16 mean(const T* image, int64_t stride, const ImageWindow& w,
                           const Inside& window, Lanes lanes) {
  F32x16 sum = zeros();
  for (int64_t row = window.first_row; row < window.end_row; ++row) {
    for (int64_t col = window.first_col; col < window.end_col; ++col) {
      sum = sum + load(image + (row * w.width + col) * stride, lanes);
    }
  }
  return sum / broadcast(float(w.size * w.size));
}

template <typename T>
void forward_pixel(const PoolForwardArgs& args, int64_t q) {
  const ImageWindow& w = args.window;
  const int64_t out_width = w.out_width(), out_height = w.out_height();
  const Inside window = inside(w, q / out_width % out_height, q % out_width);
  const T* image = args.x_PC.row<const T>(q / out_width / out_height * w.height * w.width);
  T* y_C = args.y_QC.row<T>(q);
  const int64_t stride = args.x_PC.stride;
  for_each_vector(args.x_PC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    store(y_C + c,
          args.kind == PoolKind::Max ? largest(image + c, stride, w.width, window, lanes).value
                                     : mean(image + c, stride, w, window, lanes),
          lanes);
  });
}

// The gradients of one image and 16 channels lie in the workspace [pixel][16] until all windows
// have added to them.
template <typename T, typename Lanes>
TRIREME_INLINE void backward_image(const PoolBackwardArgs& args, int64_t image_index, int64_t c,
                                   Lanes lanes, float* plane) {
  const ImageWindow& w = args.window;
  const int64_t pixels = w.height * w.width, out_pixels = w.out_height() * w.out_width();
  for (int64_t p = 0; p < pixels; ++p) store(plane + p * kLanes, zeros());
  const F32x16 share = broadcast(float(w.size * w.size));
  for (int64_t q = 0; q < out_pixels; ++q) {
    const Inside window = inside(w, q / w.out_width(), q % w.out_width());
    const F32x16 dy = load(args.dy_QC.row<const T>(image_index * out_pixels + q) + c, lanes);
    U32x16 chosen = broadcast_u32(0);
    if (args.kind == PoolKind::Max) {
      const T* image = args.x_PC.row<const T>(image_index * pixels) + c;
      chosen = largest(image, args.x_PC.stride, w.width, window, lanes).pixel;
    }
    for (int64_t row = window.first_row; row < window.end_row; ++row) {
      for (int64_t col = window.first_col; col < window.end_col; ++col) {
        const int64_t pixel = row * w.width + col;
        float* sum = plane + pixel * kLanes;
        const F32x16 part = args.kind == PoolKind::Max
                                ? select(chosen == broadcast_u32(uint32_t(pixel)), dy, zeros())
                                : dy / share;
        store(sum, load(sum) + part);
      }
    }
  }
  const bool accumulate = args.write == Write::Accumulate;
  for (int64_t p = 0; p < pixels; ++p) {
    T* dx_C = args.dx_PC.row<T>(image_index * pixels + p) + c;
    const F32x16 sum = load(plane + p * kLanes);
    store(dx_C, accumulate ? load(dx_C, lanes) + sum : sum, lanes);
  }
}

}  // namespace

void pool_forward(Stream& stream, const PoolForwardArgs& args) {
  check_pool_forward(args);
  const int64_t work = args.x_PC.cols * args.window.size * args.window.size;
  with_element(args.x_PC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.y_QC.rows, work, [&](int64_t begin, int64_t end, int) {
      for (int64_t q = begin; q < end; ++q) forward_pixel<T>(args, q);
    });
  });
}

void pool_backward(Stream& stream, const PoolBackwardArgs& args) {
  check_pool_backward(args);
  const int64_t cols = args.dx_PC.cols, vectors = (cols + kLanes - 1) / kLanes;
  with_element(args.dx_PC.dtype, [&]<typename T>(T) {
    stream.team().parallel_for(args.window.images * vectors, [&](int64_t tile, int thread) {
      const int64_t c = tile % vectors * kLanes;
      float* plane = reinterpret_cast<float*>(stream.workspace(thread));
      if (c + kLanes <= cols) {
        backward_image<T>(args, tile / vectors, c, AllLanes{}, plane);
      } else {
        backward_image<T>(args, tile / vectors, c, FirstLanes{cols - c}, plane);
      }
    });
  });
}

}  // namespace trireme::TRIREME_ISA
