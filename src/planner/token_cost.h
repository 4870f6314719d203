#pragma once

#include <optional>

#include "base/result.h"

namespace trireme {

// How fast a run goes, as the plan or the search predicts it.
struct RunSpeed {
  double tokens_per_step = 0.0;
  double step_s = 0.0;
  int num_ranks = 1;
};

// What it takes to train on so many tokens at the predicted speed. Failures, evaluation and
// checkpoints are not counted.
struct TokenCost {
  double tokens = 0.0;
  double days = 0.0;
  double device_hours = 0.0;   // of all ranks
  std::optional<double> cost;  // if the price of a device hour is given
};

// Refuses numbers of tokens and prices that are not positive and finite, each with its option.
Status check_token_options(std::optional<double> tokens, std::optional<double> price_per_hour);

TokenCost token_cost(double tokens, const RunSpeed& speed, std::optional<double> price_per_hour);

}  // namespace trireme
