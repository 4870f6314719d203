#include "reproduce/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compile/link_cost.h"

namespace trireme {
namespace {

constexpr double kActivationBytes = 2.0;
constexpr double kGradientBytes = 4.0;
constexpr double kParameterBytes = 2.0;

// Bandwidth of a rank on an axis of `count` ranks, `stride` positions apart.
double bytes_per_s(const Hardware& hardware, int count, int stride) {
  return group_link(hardware, {count, stride}).bytes_per_s;
}

// Parameters of the layers and of the embedding on one rank.
double params_of_rank(const PublishedRun& run) {
  const GptShape& model = run.model;
  const double h = double(model.d_model);
  const double layers = 12.0 * h * h * double(model.layers) / run.parallel.pp;
  return (layers + h * double(model.vocab_size)) / run.parallel.tp;
}

// Bytes of the activations between two layers of one micro-batch.
double activation_bytes(const PublishedRun& run) {
  return kActivationBytes * double(run.micro_sequences) * double(run.model.seq_len) *
         double(run.model.d_model);
}

// Two all-reduces of activations in each pass of a layer, forward, backward and recomputed.
double tp_bytes(const PublishedRun& run) {
  const double passes = run.recompute == Recompute::Full ? 3.0 : 2.0;
  const double share = double(run.parallel.tp - 1) / run.parallel.tp;
  const double layers = double(run.model.layers) / run.parallel.pp;
  return passes * 2.0 * 2.0 * share * layers * activation_bytes(run);
}

// Activations to the next stage and gradients back, for every chunk.
double pp_bytes(const PublishedRun& run) {
  if (run.parallel.pp == 1) return 0.0;
  return 2.0 * std::max(run.parallel.chunks, 1) * activation_bytes(run);
}

// One sum of gradients a step; ZeRO-3 gathers parameters twice a micro-batch and scatters
// gradients.
double dp_bytes(const PublishedRun& run, double num_microbatches) {
  const double share = double(run.parallel.dp - 1) / run.parallel.dp;
  if (run.parallel.zero < 3) return 2.0 * kGradientBytes * share * params_of_rank(run);
  return num_microbatches * (2.0 * kParameterBytes + kGradientBytes) * share * params_of_rank(run);
}

double rate_of(const PublishedRun& run) {
  return executed_flops(run) / run.num_ranks() / run.step_s;
}

}  // namespace

double constant_step_s(const PublishedRun& run, double flops) {
  return executed_flops(run) / run.num_ranks() / flops;
}

double best_constant_flops(std::span<const PublishedRun> runs) {
  // Between two of the measured rates the mean error is monotone, so one of them is the best.
  double best = 0.0;
  double least = std::numeric_limits<double>::infinity();
  for (const PublishedRun& candidate : runs) {
    const double flops = rate_of(candidate);
    double sum = 0.0;
    for (const PublishedRun& run : runs) {
      sum += std::abs(constant_step_s(run, flops) / run.step_s - 1.0);
    }
    if (sum < least) {
      least = sum;
      best = flops;
    }
  }
  return best;
}

double roofline_step_s(const PublishedRun& run, const Hardware& hardware) {
  const ParallelConfig& parallel = run.parallel;
  const double num_microbatches =
      double(run.global_sequences) / double(parallel.dp) / double(run.micro_sequences);
  const int stage = parallel.tp * parallel.cp;
  const auto seconds = [&](double bytes, int count, int stride) {
    return bytes > 0.0 ? bytes / bytes_per_s(hardware, count, stride) : 0.0;
  };
  const double tp_s = seconds(tp_bytes(run), parallel.tp, 1);
  const double pp_s = seconds(pp_bytes(run), parallel.pp, stage);
  const double dp_s = seconds(dp_bytes(run, num_microbatches), parallel.dp, stage * parallel.pp);
  return constant_step_s(run, hardware.bf16_flops) + num_microbatches * (tp_s + pp_s) + dp_s;
}

}  // namespace trireme
