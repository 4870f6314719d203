#include "session/learned_hardware.h"

#include <algorithm>

namespace trireme {
namespace {

// Times shorter than this part of a step are noise.
constexpr double kLeastPart = 1e-3;

// The most that a hardware file may state.
constexpr double kMostVectorShare = 8.0;

// Makes a rate faster by `factor`: its share of a peak up to the whole peak, and then the peak.
void speed_up(double factor, double& share, double& rate) {
  const double wanted = share * factor;
  share = std::min(1.0, wanted);
  rate *= std::max(1.0, wanted);
}

// How much faster each part of the compute was than its price.
struct SpeedUps {
  double products = 1.0, attention = 1.0, memory = 1.0;
};

void speed_up_compute(const SpeedUps& factors, Hardware& hardware) {
  const double share = hardware.matmul_share;
  speed_up(factors.products, hardware.matmul_share, hardware.fp32_flops);
  const double peaks = share * factors.products / hardware.matmul_share;
  hardware.bf16_flops *= peaks;
  hardware.fp16_flops *= peaks;
  hardware.sustained_flops *= factors.products;
  hardware.matmul_bytes_per_s *= factors.products;
  hardware.attention_share = std::min(1.0, hardware.attention_share * factors.attention / peaks);
  speed_up(factors.memory, hardware.memory_share, hardware.memory_bytes_per_s);
  hardware.vector_share =
      std::min(kMostVectorShare, hardware.vector_share * factors.memory / peaks);
  hardware.launch_s /= factors.memory;
}

double seconds_of(const std::vector<OpTimes>& ops, OpLimit limit) {
  double seconds = 0.0;
  for (const OpTimes& op : ops) seconds += op.limit == limit ? total_s(op.seconds) : 0.0;
  return seconds;
}

// Scales every part by its ops. The update of the parameters is limited by memory, too.
void learn_by_ops(const StepTimes& predicted, const StepTimes& measured, const OpComparison& ops,
                  double share_left, double least_s, Hardware& learned) {
  double rest_s = (measured.compute - measured.optimizer) * share_left;
  const auto factor = [&](OpLimit limit, double predicted_s, double measured_s) {
    const double ops_s = seconds_of(ops.measured, limit) * share_left;
    rest_s -= ops_s;
    predicted_s += seconds_of(ops.predicted, limit);
    measured_s = measured_s * share_left + ops_s;
    return predicted_s > least_s && measured_s > least_s ? predicted_s / measured_s : 1.0;
  };
  const SpeedUps factors{
      .products = factor(OpLimit::Products, 0.0, 0.0),
      .attention = factor(OpLimit::Attention, 0.0, 0.0),
      .memory = factor(OpLimit::Memory, predicted.optimizer, measured.optimizer)};
  speed_up_compute(factors, learned);
  learned.step_s = std::max(0.0, rest_s);
}

}  // namespace

Hardware learned_hardware(const Hardware& hardware, const StepTimes& predicted,
                          const StepTimes& measured, const OpComparison& ops, double share_left) {
  Hardware learned = hardware;
  const double least_s = kLeastPart * measured.step * share_left;
  const double compute_s = measured.compute * share_left;
  if (compute_s > least_s && predicted.compute > least_s) {
    if (ops.measured.empty()) {
      const double factor = predicted.compute / compute_s;
      speed_up_compute({factor, factor, factor}, learned);
      learned.step_s /= factor;
    } else {
      learn_by_ops(predicted, measured, ops, share_left, least_s, learned);
    }
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
