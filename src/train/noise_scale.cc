#include "train/noise_scale.h"

#include <cmath>

namespace trireme {
namespace {

// Weight of the measurements so far when one more is added. Both averages begin at 0, and their
// quotient does not depend on that.
constexpr double kDecay = 0.9;

}  // namespace

NoiseSample noise_sample(const GradNorm& small, const GradNorm& large) {
  const double b = double(small.tokens), B = double(large.tokens);
  const double of_small = small.norm * small.norm, of_large = large.norm * large.norm;
  return {(B * of_large - b * of_small) / (B - b), (of_small - of_large) / (1.0 / b - 1.0 / B)};
}

void NoiseScale::add(const GradNorm& small, const GradNorm& large) {
  const bool differ = 0 < small.tokens && small.tokens < large.tokens;
  if (!differ || !std::isfinite(small.norm) || !std::isfinite(large.norm)) return;
  const NoiseSample sample = noise_sample(small, large);
  squared_grad_ = kDecay * squared_grad_ + (1.0 - kDecay) * sample.squared_grad;
  trace_ = kDecay * trace_ + (1.0 - kDecay) * sample.trace;
}

std::optional<double> NoiseScale::tokens() const {
  if (squared_grad_ <= 0.0 || trace_ <= 0.0) return std::nullopt;
  return trace_ / squared_grad_;
}

}  // namespace trireme
