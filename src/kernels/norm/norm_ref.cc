#include <cmath>
#include <vector>

#include "kernels/norm/norm.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

// The statistics that backward reads, rounded once to fp32.
struct Statistics {
  double mean = 0.0;
  double rstd = 0.0;
};

Statistics statistics_of(const NormForwardArgs& args, int64_t t) {
  const int64_t cols = args.x_TC.cols;
  double mean = 0.0;
  if (args.kind == NormKind::Layer) {
    for (int64_t c = 0; c < cols; ++c) mean += read(args.x_TC, t, c) / double(cols);
  }
  double variance = 0.0;
  for (int64_t c = 0; c < cols; ++c) {
    variance += std::pow(read(args.x_TC, t, c) - mean, 2) / double(cols);
  }
  return {mean, 1.0 / std::sqrt(variance + args.eps)};
}

Statistics saved(NormKind kind, const TensorRef& mean_T, const TensorRef& rstd_T, int64_t t) {
  return {kind == NormKind::Layer ? read(mean_T, t) : 0.0, read(rstd_T, t)};
}

}  // namespace

void norm_forward_ref(Stream&, const NormForwardArgs& args) {
  check_norm_forward(args);
  for (int64_t t = 0; t < args.x_TC.rows; ++t) {
    const auto [mean, rstd] = statistics_of(args, t);
    for (int64_t c = 0; c < args.x_TC.cols; ++c) {
      const double gain = args.gain_C ? read(args.gain_C, c) : 1.0;
      const double bias = args.bias_C ? read(args.bias_C, c) : 0.0;
      write(args.y_TC, t, c, (read(args.x_TC, t, c) - mean) * rstd * gain + bias);
    }
    if (args.kind == NormKind::Layer) write(args.mean_T, t, mean);
    write(args.rstd_T, t, rstd);
  }
}

void norm_backward_input_ref(Stream&, const NormBackwardInputArgs& args) {
  check_norm_backward_input(args);
  const int64_t cols = args.x_TC.cols;
  std::vector<double> g_C(cols), x_hat_C(cols);
  for (int64_t t = 0; t < args.x_TC.rows; ++t) {
    const auto [mean, rstd] = saved(args.kind, args.mean_T, args.rstd_T, t);
    double mean_g = 0.0, mean_g_x_hat = 0.0;
    for (int64_t c = 0; c < cols; ++c) {
      g_C[c] = read(args.dy_TC, t, c) * (args.gain_C ? read(args.gain_C, c) : 1.0);
      x_hat_C[c] = (read(args.x_TC, t, c) - mean) * rstd;
      if (args.kind == NormKind::Layer) mean_g += g_C[c] / double(cols);
      mean_g_x_hat += g_C[c] * x_hat_C[c] / double(cols);
    }
    for (int64_t c = 0; c < cols; ++c) {
      const double dresidual = args.dresidual_TC ? read(args.dresidual_TC, t, c) : 0.0;
      write(args.dx_TC, t, c, dresidual + rstd * (g_C[c] - mean_g - x_hat_C[c] * mean_g_x_hat));
    }
  }
}

void norm_backward_weight_ref(Stream&, const NormBackwardWeightArgs& args) {
  check_norm_backward_weight(args);
  for (int64_t c = 0; c < args.x_TC.cols; ++c) {
    double dgain = 0.0, dbias = 0.0;
    for (int64_t t = 0; t < args.x_TC.rows; ++t) {
      const auto [mean, rstd] = saved(args.kind, args.mean_T, args.rstd_T, t);
      const double dy = read(args.dy_TC, t, c);
      dgain += dy * (read(args.x_TC, t, c) - mean) * rstd;
      dbias += dy;
    }
    const bool accumulate = args.write == Write::Accumulate;
    if (args.dgain_C) write(args.dgain_C, c, dgain + (accumulate ? read(args.dgain_C, c) : 0.0));
    if (args.dbias_C) write(args.dbias_C, c, dbias + (accumulate ? read(args.dbias_C, c) : 0.0));
  }
}

}  // namespace trireme
