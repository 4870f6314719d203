#include <vector>

#include "kernels/convolution/convolution.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

// Calls body(output pixel, filter, input pixel, channel, element of the filter) for every product
// of a convolution; pixels of the padding are left out.
template <typename Body>
void for_each_product(const ImageWindow& w, int64_t groups, int64_t channels, int64_t filters,
                      Body&& body) {
  const int64_t out_height = w.out_height(), out_width = w.out_width();
  const int64_t group_channels = channels / groups, group_filters = filters / groups;
  for (int64_t q = 0; q < w.out_pixels(); ++q) {
    const int64_t image = q / out_width / out_height;
    for (int64_t k = 0; k < w.size * w.size; ++k) {
      const int64_t y = q / out_width % out_height * w.stride + k / w.size - w.padding_above();
      const int64_t x = q % out_width * w.stride + k % w.size - w.padding;
      if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
      const int64_t p = (image * w.height + y) * w.width + x;
      for (int64_t f = 0; f < filters; ++f) {
        for (int64_t c = 0; c < group_channels; ++c) {
          body(q, f, p, f / group_filters * group_channels + c, k * group_channels + c);
        }
      }
    }
  }
}

// Returns the old elements if the result is added to them, else zeros.
std::vector<double> start_of(const MatrixRef& x, Write how) {
  std::vector<double> start(size_t(x.rows * x.cols), 0.0);
  if (how == Write::Overwrite) return start;
  for (int64_t i = 0; i < x.rows * x.cols; ++i) start[i] = read(x, i / x.cols, i % x.cols);
  return start;
}
void write_all(const MatrixRef& x, const std::vector<double>& values) {
  for (int64_t i = 0; i < x.rows * x.cols; ++i) write(x, i / x.cols, i % x.cols, values[i]);
}

}  // namespace

void convolution_forward_ref(Stream&, const ConvolutionForwardArgs& args) {
  check_convolution_forward(args);
  const int64_t filters = args.y_QF.cols;
  std::vector<double> y = start_of(args.y_QF, Write::Overwrite);
  for_each_product(args.window, args.groups, args.x_PC.cols, filters,
                   [&](int64_t q, int64_t f, int64_t p, int64_t c, int64_t k) {
                     y[q * filters + f] += read(args.x_PC, p, c) * read(args.w_FK, f, k);
                   });
  if (args.bias_F) {
    for (size_t i = 0; i < y.size(); ++i) y[i] += read(args.bias_F, int64_t(i) % filters);
  }
  write_all(args.y_QF, y);
}

void convolution_backward_input_ref(Stream&, const ConvolutionBackwardInputArgs& args) {
  check_convolution_backward_input(args);
  const int64_t channels = args.dx_PC.cols;
  std::vector<double> dx = start_of(args.dx_PC, args.write);
  for_each_product(args.window, args.groups, channels, args.dy_QF.cols,
                   [&](int64_t q, int64_t f, int64_t p, int64_t c, int64_t k) {
                     dx[p * channels + c] += read(args.dy_QF, q, f) * read(args.w_FK, f, k);
                   });
  write_all(args.dx_PC, dx);
}

void convolution_backward_weight_ref(Stream&, const ConvolutionBackwardWeightArgs& args) {
  check_convolution_backward_weight(args);
  const int64_t elements = args.dw_FK.cols;
  std::vector<double> dw = start_of(args.dw_FK, args.write);
  for_each_product(args.window, args.groups, args.x_PC.cols, args.dy_QF.cols,
                   [&](int64_t q, int64_t f, int64_t p, int64_t c, int64_t k) {
                     dw[f * elements + k] += read(args.dy_QF, q, f) * read(args.x_PC, p, c);
                   });
  write_all(args.dw_FK, dw);
}

}  // namespace trireme
