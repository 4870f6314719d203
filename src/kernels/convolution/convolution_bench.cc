#include <fmt/format.h>

#include "kernels/bench_tensors.h"
#include "kernels/convolution/convolution_cases.h"

namespace trireme {
namespace {

struct ConvolutionOperands {
  ConvolutionOperands(DType dtype, const ConvolutionShape& s)
      : x(varied(dtype, {s.window.in_pixels(), s.channels})),
        w(varied(dtype, {s.filters, elements(s)})),
        y(varied(dtype, {s.window.out_pixels(), s.filters})),
        dx(dtype, {s.window.in_pixels(), s.channels}),
        dw(DType::F32, {s.filters, elements(s)}),
        scratch_bytes(
            convolution_scratch(s.window, s.groups, s.channels, s.filters, dtype).bytes()),
        scratch(DType::U8, {std::max<int64_t>(1, scratch_bytes)}) {}
  static int64_t elements(const ConvolutionShape& s) {
    return s.window.size * s.window.size * s.channels / s.groups;
  }
  TensorRef scratch_ref() const { return {scratch.ref().data, DType::U8, Shape{scratch_bytes}}; }
  Tensor x, w, y, dx, dw;
  int64_t scratch_bytes;
  Tensor scratch;
};

// Returns a name such as "forward resnet50 3x3/2+1 128 -> 128, 4 of 56, 1 times": window, stride,
// padding, channels, filters, images, their extent, and how often the net has it.
std::string name_of_row(const char* direction, const char* net, const NetConvolution& layer) {
  const ConvolutionShape& s = layer.shape;
  const ImageWindow& w = s.window;
  return fmt::format("{} {} {}x{}/{}+{} {} -> {}, {} of {}, {} times", direction, net, w.size,
                     w.size, w.stride, w.padding, s.channels, s.filters, w.images, w.height,
                     layer.count);
}

BenchRow named_row(std::string shape, DType dtype) {
  BenchRow row;
  row.family = "convolution";
  row.shape = std::move(shape);
  row.dtype = dtype;
  row.formula = "2 output pixels x filters x elements of a filter";
  return row;
}

// Measures one direction of every convolution of a net, and adds the sum over the whole net. The
// first convolution of a net needs no gradient of its input.
template <typename Call>  // call(operands, shape)
void bench_direction(std::vector<BenchRow>& rows, const BenchContext& context,
                     const ConvolutionNet& net, DType dtype, const char* direction,
                     bool skips_first, Call&& call) {
  BenchRow sum = named_row(fmt::format("{} {} all of the above", direction, net.name), dtype);
  for (size_t i = skips_first ? 1 : 0; i < net.layers.size(); ++i) {
    const auto& [shape, count] = net.layers[i];
    BenchRow row = named_row(name_of_row(direction, net.name, net.layers[i]), dtype);
    if (!context.wants(row.family, row.shape, dtype)) continue;
    const ConvolutionOperands operands(dtype, shape);
    row.flops = 2.0 * double(shape.window.out_pixels()) * double(shape.filters) *
                double(ConvolutionOperands::elements(shape));
    row.seconds = median_seconds([&] { call(operands, shape); });
    sum.flops += count * row.flops;
    sum.seconds += count * row.seconds;
    rows.push_back(std::move(row));
  }
  if (sum.flops > 0.0) rows.push_back(std::move(sum));
}

}  // namespace

void bench_convolution(std::vector<BenchRow>& rows, const BenchContext& context) {
  const KernelTable& kernels = context.kernels;
  Stream& stream = context.stream;
  for (DType dtype : {DType::BF16, DType::F32}) {
    for (const ConvolutionNet& net : convolution_nets()) {
      const auto measure = [&](const char* direction, bool skips_first, auto&& call) {
        bench_direction(rows, context, net, dtype, direction, skips_first, call);
      };
      measure("forward", false, [&](const ConvolutionOperands& o, const ConvolutionShape& s) {
        kernels.convolution_forward(
            stream, {s.window, s.groups, matrix(o.x), matrix(o.w), {}, matrix(o.y)});
      });
      measure("dX", true, [&](const ConvolutionOperands& o, const ConvolutionShape& s) {
        kernels.convolution_backward_input(
            stream, {s.window, s.groups, matrix(o.y), matrix(o.w), matrix(o.dx), o.scratch_ref()});
      });
      measure("dW", false, [&](const ConvolutionOperands& o, const ConvolutionShape& s) {
        kernels.convolution_backward_weight(stream, {s.window, s.groups, matrix(o.y), matrix(o.x),
                                                     matrix(o.dw), Write::Accumulate});
      });
    }
  }
}

}  // namespace trireme
