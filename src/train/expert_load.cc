#include "train/expert_load.h"

#include <algorithm>
#include <numeric>

namespace trireme {

ExpertLoad expert_load(std::span<const int64_t> loads, int64_t num_experts) {
  ExpertLoad result;
  const size_t width = size_t(num_experts) + 1;
  for (size_t layer = 0; layer < loads.size(); layer += width) {
    const std::span<const int64_t> of_layer = loads.subspan(layer, size_t(num_experts));
    const int64_t visits = std::accumulate(of_layer.begin(), of_layer.end(), int64_t{0});
    const int64_t most = *std::max_element(of_layer.begin(), of_layer.end());
    result.visits += visits;
    result.dropped += loads[layer + width - 1];
    if (visits == 0) continue;
    result.max_over_mean =
        std::max(result.max_over_mean, double(most) * double(num_experts) / double(visits));
  }
  return result;
}

double expert_share(std::span<const int64_t> loads, int64_t num_experts, int64_t expert) {
  const size_t width = size_t(num_experts) + 1;
  int64_t visits = 0, own = 0;
  for (size_t layer = 0; layer < loads.size(); layer += width) {
    for (size_t e = 0; e + 1 < width; ++e) visits += loads[layer + e];
    own += loads[layer + size_t(expert)];
  }
  return visits == 0 ? 0.0 : double(own) / double(visits);
}

}  // namespace trireme
