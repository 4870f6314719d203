#include "kernels/convolution/patches.h"
#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// Computes one product with patches. `args` describes c and the operand that is stored. The other
// operand has the shape of the patches and no memory.
template <typename T>
void run(Stream& stream, const MatmulArgs& args, const Patches<T>& patches) {
  using P = Product<T, Patches<T>>;
  if (args.c.rows == 0 || args.c.cols == 0) return;
  const MatmulArgs once = rounded_once(args);
  const int64_t k = inner_extent(once);
  const bool serial = 2.0 * double(once.c.rows) * double(once.c.cols) * double(k) < P::kSerialFlops;
  const bool packs_patches = once.form == MatmulForm::TN;
  Tiling tiling =
      choose_tiling({.rows = once.c.rows,
                     .cols = once.c.cols,
                     .steps = P::num_steps(k),
                     .panel_cols = kPanelCols,
                     .packs_a = true,  // tiles are wide, so that rows are copied for few of them
                     .widens_a = P::kWidensRows,
                     .most_packed_cols = packs_patches ? kMostPackedCols : 256,
                     .panels = packs_patches ? patches.panel_source() : PanelSource::Matrix,
                     .num_threads = serial ? 1 : stream.team().size(),
                     .group_rows = P::kUnitRows});
  if (!packs_patches) tiling.block_steps = patches.block_steps(tiling.block_steps);
  const P product{once, tiling, k, 0, patches};
  const auto multiply = [&](int64_t tile, int thread) {
    product.multiply_tile(tile, product.workspace(stream, thread));
  };
  run_tiles(stream, tiling.num_row_blocks * tiling.num_col_blocks, serial, multiply);
}

// Returns a matrix of the shape of the patches, without memory.
template <typename T>
MatrixRef shape_of(const Patches<T>& patches, int64_t rows) {
  return {nullptr, dtype_of<T>, rows, patches.cols(), patches.cols()};
}

// Returns the patches of the channels of a group, which start at `channel`.
template <typename T>
Patches<T> patches_of(const ImageWindow& window, const MatrixRef& x_PC, int64_t channel,
                      int64_t channels) {
  return {.pixels = x_PC.row<const T>(0) + channel,
          .pixel_stride = x_PC.stride,
          .channels = channels,
          .height = window.height,
          .width = window.width,
          .out_height = window.out_height(),
          .out_width = window.out_width(),
          .window_height = window.size,
          .window_width = window.size,
          .stride = window.stride,
          .top = -window.padding_above(),
          .left = -window.padding};
}

template <typename T>
void forward(Stream& stream, const ConvolutionForwardArgs& args) {
  const int64_t channels = args.x_PC.cols / args.groups, filters = args.y_QF.cols / args.groups;
  for (int64_t g = 0; g < args.groups; ++g) {
    const Patches<T> patches = patches_of<T>(args.window, args.x_PC, g * channels, channels);
    MatmulArgs product{.form = MatmulForm::NT,
                       .a = shape_of(patches, args.y_QF.rows),
                       .b = rows_of(args.w_FK, g * filters, filters),
                       .c = cols_of(args.y_QF, g * filters, filters)};
    if (args.bias_F) {
      product.bias_N = {args.bias_F.as<T>() + g * filters, args.bias_F.dtype, Shape{filters}};
    }
    if (reads_own_pixel(args.window)) {
      product.a = cols_of(args.x_PC, g * channels, channels);
      matmul(stream, product);
    } else {
      run(stream, product, patches);
    }
  }
}

template <typename T>
void backward_weight(Stream& stream, const ConvolutionBackwardWeightArgs& args) {
  const int64_t channels = args.x_PC.cols / args.groups, filters = args.dy_QF.cols / args.groups;
  for (int64_t g = 0; g < args.groups; ++g) {
    const Patches<T> patches = patches_of<T>(args.window, args.x_PC, g * channels, channels);
    MatmulArgs product{.form = MatmulForm::TN,
                       .a = cols_of(args.dy_QF, g * filters, filters),
                       .b = shape_of(patches, args.dy_QF.rows),
                       .c = rows_of(args.dw_FK, g * filters, filters),
                       .write = args.write};
    if (reads_own_pixel(args.window)) {
      product.b = cols_of(args.x_PC, g * channels, channels);
      matmul(stream, product);
    } else {
      run(stream, product, patches);
    }
  }
}

// The input pixels of one remainder (their row or column modulo the stride) along one dim. The
// elements `first`, `first + stride`, ... of the filter met them, so their gradients are a
// convolution of stride 1 over the output's gradients with these elements in reverse order.
struct Remainder {
  Remainder(const ImageWindow& window, int64_t extent, int64_t padding, int64_t remainder)
      : begin(remainder),
        pixels((extent - remainder + window.stride - 1) / window.stride),
        first((remainder + padding) % window.stride),
        count(first < window.size ? (window.size - first + window.stride - 1) / window.stride : 0),
        start((remainder + padding - first) / window.stride - (count - 1)) {}
  int64_t element(int64_t i, const ImageWindow& window) const {
    return first + (count - 1 - i) * window.stride;
  }
  int64_t begin;   // the first pixel
  int64_t pixels;  // may be 0
  int64_t first;
  int64_t count;  // elements of the filter; may be 0
  int64_t start;  // where the window of the first pixel starts
};

// Writes the filters of a group as [row, column, filter] x channels, with the elements that met the
// pixels of a remainder.
template <typename T>
void turn_filters(Stream& stream, const ConvolutionBackwardInputArgs& args, int64_t g,
                  const Remainder& down, const Remainder& across, T* turned) {
  const int64_t channels = args.dx_PC.cols / args.groups, filters = args.dy_QF.cols / args.groups;
  const int64_t num_rows = down.count * across.count * filters;
  for_each_row_tile(stream, num_rows, channels, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t filter = row % filters, element = row / filters;
      const int64_t y = down.element(element / across.count, args.window);
      const int64_t x = across.element(element % across.count, args.window);
      const T* from =
          args.w_FK.row<const T>(g * filters + filter) + (y * args.window.size + x) * channels;
      std::memcpy(turned + row * channels, from, size_t(channels) * sizeof(T));
    }
  });
}

// Moves the gradients of the pixels of a remainder to their places in dx. If `gradients` is null,
// they are zeros.
template <typename T>
void spread(Stream& stream, const ConvolutionBackwardInputArgs& args, int64_t g,
            const Remainder& down, const Remainder& across, const float* gradients) {
  const int64_t channels = args.dx_PC.cols / args.groups;
  const ImageWindow& window = args.window;
  const bool accumulate = args.write == Write::Accumulate;
  if (!gradients && accumulate) return;
  const int64_t num_rows = window.images * down.pixels * across.pixels;
  for_each_row_tile(stream, num_rows, channels, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / across.pixels / down.pixels;
      const int64_t y = down.begin + row / across.pixels % down.pixels * window.stride;
      const int64_t x = across.begin + row % across.pixels * window.stride;
      T* to = args.dx_PC.row<T>((image * window.height + y) * window.width + x) + g * channels;
      const float* from = gradients + row * channels;
      for_each_vector(channels, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
        const F32x16 gradient = gradients ? load(from + c, lanes) : zeros();
        store(to + c, accumulate ? load(to + c, lanes) + gradient : gradient, lanes);
      });
    }
  });
}

template <typename T>
void backward_input(Stream& stream, const ConvolutionBackwardInputArgs& args) {
  const ImageWindow& window = args.window;
  const int64_t channels = args.dx_PC.cols / args.groups, filters = args.dy_QF.cols / args.groups;
  if (args.dx_PC.rows == 0) return;
  const int64_t filter_bytes =
      convolution_scratch(window, args.groups, args.dx_PC.cols, args.dy_QF.cols, dtype_of<T>)
          .filter_bytes;
  for (int64_t g = 0; g < args.groups; ++g) {
    const MatrixRef dx = cols_of(args.dx_PC, g * channels, channels);
    const MatrixRef dy = cols_of(args.dy_QF, g * filters, filters);
    if (reads_own_pixel(window)) {
      matmul(stream, {.form = MatmulForm::NN,
                      .a = dy,
                      .b = rows_of(args.w_FK, g * filters, filters),
                      .c = dx,
                      .write = args.write});
      continue;
    }
    auto* const scratch = static_cast<std::byte*>(args.scratch.data);
    T* const turned = reinterpret_cast<T*>(scratch);
    float* const gradients = reinterpret_cast<float*>(scratch + filter_bytes);
    for (int64_t r = 0; r < window.stride * window.stride; ++r) {
      const Remainder down(window, window.height, window.padding_above(), r / window.stride);
      const Remainder across(window, window.width, window.padding, r % window.stride);
      if (down.pixels <= 0 || across.pixels <= 0) continue;
      if (down.count * across.count == 0) {
        spread<T>(stream, args, g, down, across, nullptr);
        continue;
      }
      turn_filters(stream, args, g, down, across, turned);
      const Patches<T> patches{.pixels = dy.row<const T>(0),
                               .pixel_stride = dy.stride,
                               .channels = filters,
                               .height = window.out_height(),
                               .width = window.out_width(),
                               .out_height = down.pixels,
                               .out_width = across.pixels,
                               .window_height = down.count,
                               .window_width = across.count,
                               .stride = 1,
                               .top = down.start,
                               .left = across.start};
      const int64_t rows = window.images * down.pixels * across.pixels;
      const bool apart = window.stride > 1;
      run(stream,
          MatmulArgs{.form = MatmulForm::NN,
                     .a = shape_of(patches, rows),
                     .b = {turned, dtype_of<T>, patches.cols(), channels, channels},
                     .c = apart ? MatrixRef{gradients, DType::F32, rows, channels, channels} : dx,
                     .write = apart ? Write::Overwrite : args.write},
          patches);
      if (apart) spread<T>(stream, args, g, down, across, gradients);
    }
  }
}

}  // namespace

void convolution_forward(Stream& stream, const ConvolutionForwardArgs& args) {
  check_convolution_forward(args);
  with_element(args.x_PC.dtype, [&]<typename T>(T) { forward<T>(stream, args); });
}

void convolution_backward_input(Stream& stream, const ConvolutionBackwardInputArgs& args) {
  check_convolution_backward_input(args);
  with_element(args.dx_PC.dtype, [&]<typename T>(T) { backward_input<T>(stream, args); });
}

void convolution_backward_weight(Stream& stream, const ConvolutionBackwardWeightArgs& args) {
  check_convolution_backward_weight(args);
  with_element(args.x_PC.dtype, [&]<typename T>(T) { backward_weight<T>(stream, args); });
}

}  // namespace trireme::TRIREME_ISA
