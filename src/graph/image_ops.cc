// The ops of nets of images.
#include <cmath>
#include <utility>

#include "graph/graph_builder.h"

namespace trireme {
namespace {

constexpr double kRunningRate = 0.1;  // of ParamSpec::running_rate
constexpr size_t kImageRowDims = 3;   // sample row column

// Keeps the variance through ReLU (He et al. 2015).
double he_stddev(int64_t inputs) { return std::sqrt(2.0 / double(inputs)); }

// Returns the window on one image of the size of x.
ImageWindow over(const Value& x, ImageWindow window) {
  window.images = 1;
  window.height = x.dims[1].extent;
  window.width = x.dims[2].extent;
  return window;
}

}  // namespace

ValueId GraphBuilder::add_image_op(OpKind kind, const std::string& name, ValueId x,
                                   std::vector<ParamId> params, const ImageWindow& window,
                                   int64_t channels) {
  const ValueId y = add_op(kind, name, {x}, std::move(params),
                           {Axis::Sample, Dim(Axis::Row, window.out_height()),
                            Dim(Axis::Column, window.out_width()), Dim(Axis::Channel, channels)});
  graph_.values.back().num_row_dims = kImageRowDims;
  graph_.ops.back().window = window;
  return y;
}

ValueId GraphBuilder::pixels(ValueId bytes) {
  return add_image_op(OpKind::Pixels, "pixels", bytes, {}, over(value(bytes), {}),
                      dims_of(bytes).back().extent);
}

ValueId GraphBuilder::convolution(const std::string& name, ValueId x, int64_t filters,
                                  const ImageWindow& window, bool has_bias) {
  const int64_t channels = dims_of(x).back().extent;
  const std::vector<Dim> element = {Dim(Axis::WindowRow, window.size),
                                    Dim(Axis::WindowColumn, window.size),
                                    Dim(Axis::Channel, channels)};
  const Dim made(Axis::Channel, filters);
  std::vector<ParamId> params = {
      add_matrix(name + ".w", {made}, element, he_stddev(window.size * window.size * channels))};
  if (has_bias) {
    params.push_back(add_param({.name = name + ".b", .rows = {made}, .init = ParamInit::Zero}));
  }
  return add_image_op(OpKind::Convolution, name, x, std::move(params), over(value(x), window),
                      filters);
}

ValueId GraphBuilder::batch_norm(const std::string& name, ValueId x) {
  const std::vector<Dim> channel = {dims_of(x).back()};
  const auto add = [&](const char* ending, ParamInit init, double running_rate) {
    return add_param(
        {.name = name + ending, .rows = channel, .init = init, .running_rate = running_rate});
  };
  const std::vector<ParamId> params = {
      add(".gain", ParamInit::One, 0.0), add(".bias", ParamInit::Zero, 0.0),
      add(".mean", ParamInit::Zero, kRunningRate), add(".variance", ParamInit::One, kRunningRate)};
  const ValueId y =
      add_image_op(OpKind::BatchNorm, name, x, params, over(value(x), {}), channel.front().extent);
  graph_.ops.back().batch = model_.batch_norm;
  return y;
}

ValueId GraphBuilder::pool(const std::string& name, ValueId x, const ImageWindow& window,
                           bool averages) {
  const ValueId y =
      add_image_op(OpKind::Pool, name, x, {}, over(value(x), window), dims_of(x).back().extent);
  graph_.ops.back().averages = averages;
  return y;
}

ValueId GraphBuilder::flatten(ValueId x) {
  const int64_t features = value(x).inner_rows() * dims_of(x).back().extent;
  return add_op(OpKind::Flatten, value(x).name + ".flat", {x}, {},
                {Axis::Sample, Dim(Axis::Feature, features)});
}

ValueId GraphBuilder::relu_linear(const std::string& weight, ValueId x, const Dim& out) {
  return activation(add_linear(weight, x, {out}, he_stddev(dims_of(x).back().extent)));
}

}  // namespace trireme
