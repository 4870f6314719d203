#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/loss/cross_entropy.h"
#include "kernels/ref_access.h"

namespace trireme {

void cross_entropy_ref(Stream&, const CrossEntropyArgs& args) {
  check_cross_entropy(args);
  const int64_t vocab_size = args.logits_TV.cols;
  for (int64_t t = 0; t < args.logits_TV.rows; ++t) {
    const int32_t target = args.targets_T.as<int32_t>()[t];
    const bool ignored = target == kIgnoredTarget;
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < vocab_size; ++v) max = std::max(max, read(args.logits_TV, t, v));
    double sum = 0.0;
    for (int64_t v = 0; v < vocab_size; ++v) sum += std::exp(read(args.logits_TV, t, v) - max);
    const double lse = max + std::log(sum);
    write(args.loss_T, t, ignored ? 0.0 : lse - read(args.logits_TV, t, target));
    if (!args.dlogits_TV) continue;
    for (int64_t v = 0; v < vocab_size; ++v) {  // dlogits may be the logits
      const double p = std::exp(read(args.logits_TV, t, v) - lse);
      write(args.dlogits_TV, t, v, ignored ? 0.0 : p - (v == target ? 1.0 : 0.0));
    }
  }
}

}  // namespace trireme
