#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// The pixels of a window that are in the image: [first, end) of each dim, from the image's corner.
struct Inside {
  int64_t first_row, end_row, first_col, end_col;
};
TRIREME_INLINE Inside inside(const ImageWindow& w, int64_t out_row, int64_t out_col) {
  const int64_t row = out_row * w.stride - w.padding_above();
  const int64_t col = out_col * w.stride - w.padding;
  return {row < 0 ? 0 : row, row + w.size < w.height ? row + w.size : w.height, col < 0 ? 0 : col,
          col + w.size < w.width ? col + w.size : w.width};
}

// The largest value so far of each of 16 channels, and the number of its pixel in the image.
struct Best {
  F32x16 value;
  U32x16 pixel;
};

// Visits the pixels of a window in their order. A NaN stays, whatever follows it.
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

// Some rows and channels of the input's gradients. They lie in the workspace [pixel][channel] until
// all windows that meet these rows have added to them, in their order. Windows that meet two bands
// are computed for both.
struct Band {
  int64_t image, first_row, end_row;
  int64_t channel, channels, stride;  // from one pixel to the next in the workspace
};
constexpr int64_t kBandFloats = int64_t{128} << 10;  // half of an L2 cache
constexpr int64_t kBandChannels = 256;

template <typename T>
void backward_band(const PoolBackwardArgs& args, const Band& band, float* sums) {
  const ImageWindow& w = args.window;
  const int64_t out_height = w.out_height(), out_width = w.out_width();
  const int64_t before =
      band.first_row + w.padding_above() - w.size;  // windows from here on do not reach it
  const int64_t first = before < 0 ? 0 : before / w.stride + 1;
  const int64_t last = (band.end_row - 1 + w.padding_above()) / w.stride;
  const int64_t end = last < out_height ? last + 1 : out_height;
  const T* image = args.kind == PoolKind::Max
                       ? args.x_PC.row<const T>(band.image * w.height * w.width) + band.channel
                       : nullptr;
  const F32x16 share = broadcast(float(w.size * w.size));
  const int64_t pixels = (band.end_row - band.first_row) * w.width;
  for (int64_t i = 0; i < pixels * band.stride; i += kLanes) store(sums + i, zeros());
  for (int64_t q = first * out_width; q < end * out_width; ++q) {
    const Inside window = inside(w, q / out_width, q % out_width);
    const int64_t first_row = window.first_row < band.first_row ? band.first_row : window.first_row;
    const int64_t end_row = window.end_row > band.end_row ? band.end_row : window.end_row;
    const T* dy_C = args.dy_QC.row<const T>(band.image * out_height * out_width + q) + band.channel;
    for_each_vector(band.channels, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 dy = load(dy_C + c, lanes);
      const U32x16 chosen = image
                                ? largest(image + c, args.x_PC.stride, w.width, window, lanes).pixel
                                : broadcast_u32(0);
      for (int64_t row = first_row; row < end_row; ++row) {
        float* sum = sums + ((row - band.first_row) * w.width + window.first_col) * band.stride + c;
        for (int64_t col = window.first_col; col < window.end_col; ++col, sum += band.stride) {
          const U32x16 here = broadcast_u32(uint32_t(row * w.width + col));
          store(sum, load(sum) + (image ? select(chosen == here, dy, zeros()) : dy / share));
        }
      }
    });
  }
  const bool accumulate = args.write == Write::Accumulate;
  const int64_t first_pixel = (band.image * w.height + band.first_row) * w.width;
  for (int64_t p = 0; p < pixels; ++p) {
    T* dx_C = args.dx_PC.row<T>(first_pixel + p) + band.channel;
    for_each_vector(band.channels, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 sum = load(sums + p * band.stride + c);
      store(dx_C + c, accumulate ? load(dx_C + c, lanes) + sum : sum, lanes);
    });
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
  const ImageWindow& w = args.window;
  const int64_t cols = args.dx_PC.cols;
  const int64_t channels = cols < kBandChannels ? cols : kBandChannels;
  const int64_t stride = (channels + kLanes - 1) / kLanes * kLanes;
  const int64_t fitting = kBandFloats / (w.width * stride);
  const int64_t rows = fitting < 1 ? 1 : fitting < w.height ? fitting : w.height;
  const int64_t bands = (w.height + rows - 1) / rows, parts = (cols + channels - 1) / channels;
  with_element(args.dx_PC.dtype, [&]<typename T>(T) {
    stream.team().parallel_for(w.images * bands * parts, [&](int64_t tile, int thread) {
      const int64_t row = tile / parts % bands * rows, channel = tile % parts * channels;
      const Band band{.image = tile / parts / bands,
                      .first_row = row,
                      .end_row = row + rows < w.height ? row + rows : w.height,
                      .channel = channel,
                      .channels = channel + channels < cols ? channels : cols - channel,
                      .stride = stride};
      backward_band<T>(args, band, reinterpret_cast<float*>(stream.workspace(thread)));
    });
  });
}

}  // namespace trireme::TRIREME_ISA
