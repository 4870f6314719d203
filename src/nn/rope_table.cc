#include "nn/rope_table.h"

#include <cmath>
#include <numbers>

namespace trireme {
namespace {

// Llama-3's scaling: long wavelengths are stretched by the factor, short ones stay, those between
// are blended.
double scaled_frequency(const ModelSpec& model, double frequency) {
  if (model.rope_scaling_factor == 1.0) return frequency;
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

}  // namespace

void fill_rope_table(const ModelShard& model, const TensorRef& cosines_SD,
                     const TensorRef& sines_SD) {
  const auto cos_SD = cosines_SD.view<float, 2>();
  const auto sin_SD = sines_SD.view<float, 2>();
  const bool has_all = cos_SD.size(0) == model.seq_len;
  for (int64_t pair = 0; pair < model.head_dim / 2; ++pair) {
    const double exponent = -2.0 * double(pair) / double(model.head_dim);
    const double frequency = scaled_frequency(model, std::pow(model.rope_theta, exponent));
    for (int64_t i = 0; i < cos_SD.size(0); ++i) {
      const int64_t position = has_all ? i : model.chunks.position(i);
      const double angle = double(position) * frequency;
      cos_SD(i, pair) = static_cast<float>(std::cos(angle));
      sin_SD(i, pair) = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace trireme
