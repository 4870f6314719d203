#include <cmath>
#include <numbers>

#include "kernels/activation/activation.h"
#include "kernels/ref_access.h"
#include "kernels/ref_math.h"

namespace trireme {
namespace {

constexpr double kCubic = 0.044715;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}
double tanh_of_inner(double x) {
  return std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + kCubic * x * x * x));
}

double value_of(Activation kind, double x) {
  switch (kind) {
    case Activation::GeluTanh:
      return 0.5 * x * (1.0 + tanh_of_inner(x));
    case Activation::GeluErf:
      return x * normal_cdf(x);
    case Activation::Relu:
      return x < 0.0 ? 0.0 : x;
    case Activation::Relu2:
      return x < 0.0 ? 0.0 : x * x;
  }
  return 0.0;
}

double slope_of(Activation kind, double x) {
  switch (kind) {
    case Activation::GeluTanh: {
      const double tanh = tanh_of_inner(x);
      const double inner_slope = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * kCubic * x * x);
      return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner_slope;
    }
    case Activation::GeluErf:
      return normal_cdf(x) + x * normal_density(x);
    case Activation::Relu:
      return x > 0.0 ? 1.0 : 0.0;
    case Activation::Relu2:
      return x > 0.0 ? 2.0 * x : 0.0;
  }
  return 0.0;
}

}  // namespace

void activation_forward_ref(Stream&, const ActivationForwardArgs& args) {
  check_activation_forward(args);
  for (int64_t t = 0; t < args.x_TF.rows; ++t) {
    for (int64_t f = 0; f < args.x_TF.cols; ++f) {
      write(args.y_TF, t, f, value_of(args.kind, read(args.x_TF, t, f)));
    }
  }
}

void activation_backward_ref(Stream&, const ActivationBackwardArgs& args) {
  check_activation_backward(args);
  for (int64_t t = 0; t < args.x_TF.rows; ++t) {
    for (int64_t f = 0; f < args.x_TF.cols; ++f) {
      write(args.dx_TF, t, f, read(args.dy_TF, t, f) * slope_of(args.kind, read(args.x_TF, t, f)));
    }
  }
}

void swiglu_forward_ref(Stream&, const SwigluForwardArgs& args) {
  check_swiglu_forward(args);
  for (int64_t t = 0; t < args.gate_TF.rows; ++t) {
    for (int64_t f = 0; f < args.gate_TF.cols; ++f) {
      const double gate = read(args.gate_TF, t, f);
      write(args.y_TF, t, f, gate * sigmoid(gate) * read(args.up_TF, t, f));
    }
  }
}

void swiglu_backward_ref(Stream&, const SwigluBackwardArgs& args) {
  check_swiglu_backward(args);
  for (int64_t t = 0; t < args.gate_TF.rows; ++t) {
    for (int64_t f = 0; f < args.gate_TF.cols; ++f) {
      const double dy = read(args.dy_TF, t, f);
      const double gate = read(args.gate_TF, t, f);
      const double up = read(args.up_TF, t, f);
      const double s = sigmoid(gate);
      write(args.dgate_TF, t, f, dy * up * s * (1.0 + gate * (1.0 - s)));
      write(args.dup_TF, t, f, dy * gate * s);
    }
  }
}

}  // namespace trireme
