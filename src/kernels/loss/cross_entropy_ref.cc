#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/loss/cross_entropy.h"
#include "kernels/ref_access.h"

namespace trireme {

void softmax_part_ref(Stream&, const SoftmaxPartArgs& args) {
  check_softmax_part(args);
  const int64_t cols = args.logits_TV.cols;
  for (int64_t t = 0; t < args.logits_TV.rows; ++t) {
    double part[3] = {0.0, 1.0, 0.0};
    if (args.targets_T.as<int32_t>()[t] != kIgnoredTarget) {
      const int64_t target = args.targets_T.as<int32_t>()[t] - args.first_token;
      double max = std::numeric_limits<float>::lowest(), sum = 0.0;
      for (int64_t v = 0; v < cols; ++v) max = std::max(max, read(args.logits_TV, t, v));
      for (int64_t v = 0; v < cols; ++v) sum += std::exp(read(args.logits_TV, t, v) - max);
      part[0] = max;
      part[1] = sum;
      part[2] = target >= 0 && target < cols ? read(args.logits_TV, t, target) : 0.0;
    }
    for (int64_t i = 0; i < 3; ++i) write(args.part_3T, i, t, part[i]);
  }
}

void cross_entropy_ref(Stream&, const CrossEntropyArgs& args) {
  check_cross_entropy(args);
  const int64_t rows = args.parts_3RT.rows;
  for (int64_t t = 0; t < args.parts_3RT.cols; ++t) {
    double max = std::numeric_limits<float>::lowest(), sum = 0.0, target = 0.0;
    for (int64_t r = 0; r < rows; r += 3) max = std::max(max, read(args.parts_3RT, r, t));
    for (int64_t r = 0; r < rows; r += 3) {
      sum += read(args.parts_3RT, r + 1, t) * std::exp(read(args.parts_3RT, r, t) - max);
      target += read(args.parts_3RT, r + 2, t);
    }
    const bool ignored = args.targets_T.as<int32_t>()[t] == kIgnoredTarget;
    write(args.loss_T, t, ignored ? 0.0 : max + std::log(sum) - target);
    write(args.max_T, t, ignored ? 0.0 : max);
    write(args.sum_T, t, ignored ? 1.0 : sum);
    if (args.hit_T) write(args.hit_T, t, !ignored && target >= max ? 1.0 : 0.0);
  }
}

void cross_entropy_gradient_ref(Stream&, const CrossEntropyGradientArgs& args) {
  check_cross_entropy_gradient(args);
  for (int64_t t = 0; t < args.logits_TV.rows; ++t) {
    const int64_t target = args.targets_T.as<int32_t>()[t];
    const double lse = read(args.max_T, t) + std::log(read(args.sum_T, t));
    // dlogits may be the logits, so the order matters
    for (int64_t v = 0; v < args.logits_TV.cols; ++v) {
      const double p = std::exp(read(args.logits_TV, t, v) - lse);
      const double here = args.first_token + v == target ? 1.0 : 0.0;
      write(args.dlogits_TV, t, v, target == kIgnoredTarget ? 0.0 : (p - here) * args.scale);
    }
  }
}

}  // namespace trireme
