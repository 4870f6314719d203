#include "planner/token_cost.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "goodput/expected_share.h"

namespace trireme {
namespace {

constexpr double kMostTokens = 1e18;  // a thousand times what was ever trained on
constexpr double kLeastNoiseScale = 1e-3;
constexpr double kSecondsOfHour = 3600.0;
constexpr double kHoursOfDay = 24.0;

bool is_between(double value, double least, double most) {
  return std::isfinite(value) && value >= least && value <= most;
}

// By the devices' mean time between failures. Every failure costs the restart and, on average, half
// the time between two checkpoints.
FailureCost failure_cost_of(double days, const RunSpeed& speed) {
  const double mttf_s = speed.mtbf_hours * kSecondsOfHour / speed.num_ranks;
  const SavePolicy saves{.interval_s = speed.steps_of_checkpoint > 0
                                           ? double(speed.steps_of_checkpoint) * speed.step_s
                                           : kSecondsOfHour};
  const FailuresOfTier failures{.per_s = 1.0 / mttf_s, .restart_s = speed.restart_s};
  return failure_cost(days, expected_share({&saves, 1}, {&failures, 1}), mttf_s);
}

}  // namespace

RunSpeed run_speed(double tokens_per_step, double step_s, int num_ranks, const Hardware& hardware,
                   int64_t steps_of_checkpoint) {
  return {tokens_per_step,     step_s,
          num_ranks,           hardware.watts,
          hardware.mtbf_hours, hardware.restart_s,
          steps_of_checkpoint};
}

FailureCost failure_cost(double days, double effective_share, double mttf_s) {
  if (effective_share <= 0.0) {
    const double never = std::numeric_limits<double>::infinity();
    return {never, never};
  }
  const double with_failures = days / effective_share;
  return {with_failures * kHoursOfDay * kSecondsOfHour / mttf_s, with_failures};
}

double token_efficiency(double tokens_per_step, double noise_scale) {
  return 1.0 / (1.0 + tokens_per_step / noise_scale);
}

Status check_token_options(const TokenQuestion& question, bool prices_failures) {
  const auto& [tokens, price_per_hour, noise_scale] = question;
  if (tokens && !is_between(*tokens, 1.0, kMostTokens)) {
    return usage(fmt::format(
        "--tokens {}: the number of tokens must be from 1 to {:g}; write it such as 15e12", *tokens,
        kMostTokens));
  }
  if (price_per_hour && !(std::isfinite(*price_per_hour) && *price_per_hour > 0.0)) {
    return usage(fmt::format(
        "--price-per-hour {}: the price of one device for one hour must be above 0; write it such "
        "as 2.5",
        *price_per_hour));
  }
  if (price_per_hour && !tokens && !prices_failures) {
    return usage(
        "--price-per-hour prices the tokens of --tokens and the losses of --failures; add one of "
        "them, such as --tokens 15e12");
  }
  if (noise_scale && !is_between(*noise_scale, kLeastNoiseScale, kMostTokens)) {
    return usage(
        fmt::format("--noise-scale {}: the gradient noise scale in tokens must be from {:g} to "
                    "{:g}; summary.json of a run with run.noise_scale_every has it",
                    *noise_scale, kLeastNoiseScale, kMostTokens));
  }
  if (noise_scale && !tokens) {
    return usage("--noise-scale judges the tokens of --tokens; add --tokens N, such as 15e12");
  }
  return Done{};
}

TokenCost token_cost(double tokens, const RunSpeed& speed, std::optional<double> price_per_hour) {
  const double hours = tokens / speed.tokens_per_step * speed.step_s / kSecondsOfHour;
  TokenCost cost{tokens, hours / kHoursOfDay, hours * double(speed.num_ranks), {}, {}, {}, {}};
  if (price_per_hour) cost.cost = cost.device_hours * *price_per_hour;
  if (speed.watts > 0.0) cost.megawatt_hours = 1e-6 * speed.watts * cost.device_hours;
  if (speed.mtbf_hours > 0.0) cost.with_failures = failure_cost_of(cost.days, speed);
  return cost;
}

}  // namespace trireme
