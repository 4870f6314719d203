#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "schema/model_spec.h"

namespace trireme {

// How evenly the tokens of a step are spread over the experts.
struct ExpertLoad {
  double max_over_mean = 0.0;  // largest over all layers; 1 means even
  int64_t visits = 0;          // of all layers
  int64_t dropped = 0;         // visits to experts that were full
};
// `loads` is [layer][num_experts + 1]: the visits of every expert, then the dropped visits; all 0
// for a layer without experts.
ExpertLoad expert_load(std::span<const int64_t> loads, int64_t num_experts);

// Means of the router losses over the layers with experts and the tokens of a step, without their
// weights in the loss (nn/router_losses.h). Absent if the model is not trained on them.
struct RouterLossMeans {
  std::optional<double> aux;  // 1 if every sequence spreads its visits evenly
  std::optional<double> z;
};
// `losses` is [layer][2]: RouterLosses::aux and z; 0 for a layer without experts.
RouterLossMeans router_loss_means(std::span<const int64_t> losses, const ModelSpec& model,
                                  int64_t num_tokens);

// One expert's share of the visits, over all layers.
double expert_share(std::span<const int64_t> loads, int64_t num_experts, int64_t expert);

}  // namespace trireme
