#include "interchange/merge_adapters.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

ModelSpec base_of(ModelSpec model) {
  model.lora_rank = 0;
  model.lora_scale = 0.0;
  model.lora_targets = {};
  return model;
}

// Legend: F rows of the matrix, C columns, r rank of the adapter. W_FC += scale B_Fr A_rC
void add_product(std::span<const float> a_rC, std::span<const float> b_Fr, int64_t rank,
                 double scale, std::span<float> w_FC) {
  const size_t r = size_t(rank), C = a_rC.size() / r, F = b_Fr.size() / r;
  std::vector<double> sum_C(C);
  for (size_t f = 0; f < F; ++f) {
    std::fill(sum_C.begin(), sum_C.end(), 0.0);
    for (size_t k = 0; k < r; ++k) {
      const double b = b_Fr[f * r + k];
      for (size_t c = 0; c < C; ++c) sum_C[c] += b * double(a_rC[k * C + c]);
    }
    for (size_t c = 0; c < C; ++c) {
      float& w = w_FC[f * C + c];
      w = float(double(w) + scale * sum_C[c]);
    }
  }
}

}  // namespace

Weights without_adapters(const Weights& adapted) {
  Weights base(base_of(adapted.model()));
  for (const ParamSpec& param : base.params()) {
    const std::span<const float> values = adapted.at(param.name);
    std::copy(values.begin(), values.end(), base.at(param.name).begin());
  }
  return base;
}

Weights merge_adapters(const Weights& adapted) {
  Weights merged = without_adapters(adapted);
  const ModelSpec& model = adapted.model();
  for (const ParamSpec& param : merged.params()) {
    if (!adapted.contains(param.name + ".lora_a")) continue;
    add_product(adapted.at(param.name + ".lora_a"), adapted.at(param.name + ".lora_b"),
                model.lora_rank, model.lora_scale, merged.at(param.name));
  }
  return merged;
}

ModelConfig without_adapters(ModelConfig config) {
  const ModelConfig defaults;
  config.lora_rank = defaults.lora_rank;
  config.lora_alpha = defaults.lora_alpha;
  config.lora_targets = defaults.lora_targets;
  return config;
}

}  // namespace trireme
