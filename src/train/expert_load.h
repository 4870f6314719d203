#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "spec/model_spec.h"

namespace trireme {

// How evenly the visits of a step lie on the experts.
struct ExpertLoad {
  double max_over_mean = 0.0;  // of the layer where it is greatest; 1: even
  int64_t visits = 0;          // of all layers
  int64_t dropped = 0;         // of them, by experts that were full
};
// `loads` is [layer][num_experts + 1]: visits of every expert, and dropped ones.
ExpertLoad expert_load(std::span<const int64_t> loads, int64_t num_experts);

// The means of a router's own losses over the layers and tokens of a step, without the weights that
// they have in the loss (nn/router_losses.h); absent where the model is not trained on them.
struct RouterLossMeans {
  std::optional<double> aux;  // 1: every sequence's visits are even
  std::optional<double> z;
};
// `losses` is [layer][2]: RouterLosses::aux and z.
RouterLossMeans router_loss_means(std::span<const int64_t> losses, const ModelSpec& model,
                                  int64_t num_tokens);

// One expert's part of the visits, over all layers.
double expert_share(std::span<const int64_t> loads, int64_t num_experts, int64_t expert);

}  // namespace trireme
