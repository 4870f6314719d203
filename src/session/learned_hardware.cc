#include "session/learned_hardware.h"

#include <algorithm>

namespace trireme {
namespace {

// Times shorter than this part of a step are noise.
constexpr double kLeastPart = 1e-3;

// Makes a rate faster by `factor`: its share of a peak up to the whole peak, and then the peak.
void speed_up(double factor, double& share, double& rate) {
  const double wanted = share * factor;
  share = std::min(1.0, wanted);
  rate *= std::max(1.0, wanted);
}

void speed_up_compute(double factor, Hardware& hardware) {
  const double share = hardware.matmul_share;
  speed_up(factor, hardware.matmul_share, hardware.fp32_flops);
  const double peaks = share * factor / hardware.matmul_share;
  hardware.bf16_flops *= peaks;
  hardware.fp16_flops *= peaks;
  hardware.attention_share = std::min(1.0, hardware.attention_share * factor / peaks);
  speed_up(factor, hardware.memory_share, hardware.memory_bytes_per_s);
  hardware.launch_s /= factor;
  hardware.step_s /= factor;
}

}  // namespace

Hardware learned_hardware(const Hardware& hardware, const StepTimes& predicted,
                          const StepTimes& measured, double share_left) {
  Hardware learned = hardware;
  const double least_s = kLeastPart * measured.step * share_left;
  const double compute_s = measured.compute * share_left;
  if (compute_s > least_s && predicted.compute > least_s) {
    speed_up_compute(predicted.compute / compute_s, learned);
  }
  const double comm_s = measured.exposed_comm * share_left;
  if (comm_s > least_s && predicted.exposed_comm > least_s) {
    const double factor = predicted.exposed_comm / comm_s;
    for (LinkTier& tier : learned.tiers) {
      tier.link.bytes_per_s *= factor;
      tier.link.latency_s /= factor;
    }
  }
  return learned;
}

}  // namespace trireme
