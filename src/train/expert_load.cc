#include "train/expert_load.h"

#include <algorithm>
#include <numeric>

#include "nn/router_losses.h"

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

RouterLossMeans router_loss_means(std::span<const int64_t> losses, const ModelSpec& model,
                                  int64_t num_tokens) {
  if (losses.empty()) return {};
  const auto mean_of = [&](size_t which) {
    double sum = 0.0;  // a sum of whole numbers in a fixed order has the same bits on every layout
    for (size_t i = which; i < losses.size(); i += 2) sum += double(losses[i]);
    const double num_tokens_routed = double(model.num_expert_layers()) * double(num_tokens);
    return sum / double(kRouterLossUnit) / num_tokens_routed;
  };
  RouterLossMeans means;
  if (model.aux_loss > 0.0) means.aux = mean_of(0);
  if (model.z_loss > 0.0) means.z = mean_of(1);
  return means;
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
