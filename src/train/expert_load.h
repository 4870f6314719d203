#pragma once

#include <cstdint>
#include <span>

namespace trireme {

// How evenly the visits of a step lie on the experts.
struct ExpertLoad {
  double max_over_mean = 0.0;  // of the layer where it is greatest; 1: even
  int64_t visits = 0;          // of all layers
  int64_t dropped = 0;         // of them, by experts that were full
};
// `loads` is [layer][num_experts + 1]: visits of every expert, and dropped ones.
ExpertLoad expert_load(std::span<const int64_t> loads, int64_t num_experts);

// One expert's part of the visits, over all layers.
double expert_share(std::span<const int64_t> loads, int64_t num_experts, int64_t expert);

}  // namespace trireme
