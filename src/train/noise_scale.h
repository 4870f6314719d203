#pragma once

#include <cstdint>
#include <optional>

namespace trireme {

// Norm of the mean gradient over so many tokens.
struct GradNorm {
  double norm = 0.0;
  int64_t tokens = 0;
};

// The simple noise scale of McCandlish et al. 2018 (arXiv:1812.06162, appendix A.1), from gradients
// of a small and a large batch at the same weights. With b and B tokens, E |g_b|^2 =
// |G|^2 + tr(Sigma) / b, where G is the true gradient and Sigma the covariance of one token's.
struct NoiseSample {
  double squared_grad = 0.0;  // unbiased estimate of |G|^2; one sample may be negative
  double trace = 0.0;         // unbiased estimate of tr(Sigma)
};
// The batches differ in size, and neither is empty.
NoiseSample noise_sample(const GradNorm& small, const GradNorm& large);

// The noise scale of a run: tr(Sigma) / |G|^2, both averaged over the last measurements, because
// the mean of quotients would be biased.
class NoiseScale {
 public:
  // Norms that are not finite, and batches of one size, are left out.
  void add(const GradNorm& small, const GradNorm& large);
  // Tokens of a batch; nothing while the noise hides the gradient, or nothing was measured.
  std::optional<double> tokens() const;

 private:
  double squared_grad_ = 0.0, trace_ = 0.0;
};

}  // namespace trireme
