#include "reproduce/published_attention.h"

namespace trireme {
namespace {

constexpr double kA100Peak = 312e12, kH100Peak = 989e12;

// TFLOP/s of FlashAttention-2 on H100 with heads of 128 and 16,384 tokens (Shah et al. 2024,
// arXiv:2407.08608, figures 5 and 6), and what shorter tiles take from them there
// (kernel_price.cc). With a mask only the forward pass was measured; the backward pass is taken to
// lose as much.
constexpr double kForward = 335e12 * 1.015, kBackward = 322e12 * 1.013;
constexpr double kWithMask = 335.0 / 370.0;

// FlashAttention-2 reaches up to 73 % of the peak of an A100 forward and 63 % backward. It is 1.3
// to 1.5 times as fast as FlashAttention in Triton forward, and about 2 times backward (Dao 2023,
// arXiv:2307.08691, sections 1 and 4.1).
constexpr double kForwardOfA100 = 0.73 * kA100Peak, kBackwardOfA100 = 0.63 * kA100Peak;
constexpr double kForwardGain = 1.4, kBackwardGain = 2.0;

}  // namespace

void use_flash_attention_2_on_h100(TrainerPractice& practice) {
  practice.attention_share = kForward / kH100Peak;
  practice.attention_backward_share = kWithMask * kBackward / kH100Peak;
}

void use_triton_attention_on_a100(TrainerPractice& practice) {
  practice.attention_share = kWithMask * kForwardOfA100 / kForwardGain / kA100Peak;
  practice.attention_backward_share = kWithMask * kBackwardOfA100 / kBackwardGain / kA100Peak;
}

void use_triton_attention_on_h100(TrainerPractice& practice) {
  use_flash_attention_2_on_h100(practice);
  practice.attention_share /= kForwardGain;
  practice.attention_backward_share /= kBackwardGain;
}

}  // namespace trireme
