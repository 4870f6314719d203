#include "planner/token_cost.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

constexpr double kMostTokens = 1e18;  // a thousand times what was ever trained on
constexpr double kSecondsOfHour = 3600.0;
constexpr double kHoursOfDay = 24.0;

bool is_between(double value, double least, double most) {
  return std::isfinite(value) && value >= least && value <= most;
}

}  // namespace

Status check_token_options(std::optional<double> tokens, std::optional<double> price_per_hour) {
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
  if (price_per_hour && !tokens) {
    return usage("--price-per-hour prices the tokens of --tokens; add --tokens N, such as 15e12");
  }
  return Done{};
}

TokenCost token_cost(double tokens, const RunSpeed& speed, std::optional<double> price_per_hour) {
  const double hours = tokens / speed.tokens_per_step * speed.step_s / kSecondsOfHour;
  TokenCost cost{tokens, hours / kHoursOfDay, hours * double(speed.num_ranks), {}};
  if (price_per_hour) cost.cost = cost.device_hours * *price_per_hour;
  return cost;
}

}  // namespace trireme
