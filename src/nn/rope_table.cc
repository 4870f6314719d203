#include "nn/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {
namespace {

// Returns the number of the pair that turns so often in the original context; it need not be whole.
double pair_of_turns(const ModelSpec& model, double turns) {
  const double original = static_cast<double>(model.rope_original_seq_len);
  return double(model.rope_dim()) * std::log(original / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(model.rope_theta));
}

// YaRN: pairs that turn more often than high_freq_factor in the original context stay, those that
// turn less often than low_freq_factor are stretched, and those between are blended by their
// number. Both ends are whole pairs.
double yarn_frequency(const ModelSpec& model, int64_t pair, double frequency) {
  const double last = double(model.rope_dim()) - 1.0;
  const double begin = std::max(0.0, std::floor(pair_of_turns(model, model.rope_high_freq_factor)));
  const double end = std::min(last, std::ceil(pair_of_turns(model, model.rope_low_freq_factor)));
  const double width = end == begin ? 0.001 : end - begin;
  const double stretched = std::clamp((double(pair) - begin) / width, 0.0, 1.0);
  return frequency * (stretched / model.rope_scaling_factor + (1.0 - stretched));
}

// Llama-3's scaling: long wavelengths are stretched by the factor, short ones stay, those between
// are blended.
double llama3_frequency(const ModelSpec& model, double frequency) {
  const double original = static_cast<double>(model.rope_original_seq_len);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < original / model.rope_high_freq_factor) return frequency;
  if (wavelength > original / model.rope_low_freq_factor) {
    return frequency / model.rope_scaling_factor;
  }
  const double smooth = (original / wavelength - model.rope_low_freq_factor) /
                        (model.rope_high_freq_factor - model.rope_low_freq_factor);
  return frequency * ((1.0 - smooth) / model.rope_scaling_factor + smooth);
}

double scaled_frequency(const ModelSpec& model, int64_t pair, double frequency) {
  if (model.rope_scaling_factor == 1.0) return frequency;
  return model.rope_scaling == RopeScaling::Yarn ? yarn_frequency(model, pair, frequency)
                                                 : llama3_frequency(model, frequency);
}

}  // namespace

void fill_rope_table(const ModelShard& model, const TensorRef& cosines_SD,
                     const TensorRef& sines_SD) {
  const auto cos_SD = cosines_SD.view<float, 2>();
  const auto sin_SD = sines_SD.view<float, 2>();
  const bool has_all = cos_SD.size(0) == model.seq_len;
  for (int64_t pair = 0; pair < model.rope_dim() / 2; ++pair) {
    const double exponent = -2.0 * double(pair) / double(model.rope_dim());
    const double frequency = scaled_frequency(model, pair, std::pow(model.rope_theta, exponent));
    for (int64_t i = 0; i < cos_SD.size(0); ++i) {
      const int64_t position = has_all ? i : model.chunks.position(i);
      const double angle = double(position) * frequency;
      cos_SD(i, pair) = static_cast<float>(std::cos(angle));
      sin_SD(i, pair) = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace trireme
