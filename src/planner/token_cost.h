#pragma once

#include <optional>

#include "base/result.h"
#include "schema/hardware.h"

namespace trireme {

// How fast a run goes, as the plan or the search predicts it, and how it is interrupted.
struct RunSpeed {
  double tokens_per_step = 0.0;
  double step_s = 0.0;
  int num_ranks = 1;
  double watts = 0.0;               // of a device; 0: unknown
  double mtbf_hours = 0.0;          // of a device; 0: unknown
  double restart_s = 0.0;           // after a failure
  int64_t steps_of_checkpoint = 0;  // between two of them; 0: one every hour
};
RunSpeed run_speed(double tokens_per_step, double step_s, int num_ranks, const Hardware& hardware,
                   int64_t steps_of_checkpoint);

// Failures of a run, and the days that it takes with them.
struct FailureCost {
  double failures = 0.0;
  double days = 0.0;  // infinite where failures come faster than restarts
};
// For a run that takes so many days without failures. `effective_share`: of its time, as
// expected_share (goodput/expected_share.h) or a forecast says.
FailureCost failure_cost(double days, double effective_share, double mttf_s);

// What it takes to train on so many tokens at the predicted speed. Evaluation and the writing of
// checkpoints are not counted; failures only in `with_failures`.
struct TokenCost {
  double tokens = 0.0;
  double days = 0.0;
  double device_hours = 0.0;                 // of all ranks
  std::optional<double> cost;                // if the price of a device hour is given
  std::optional<double> megawatt_hours;      // if the power of a device is known
  std::optional<FailureCost> with_failures;  // if failures of a device are known
  std::optional<double> token_efficiency;    // if the noise scale is given
};

// The fewest tokens that reach a loss / the tokens with which batches of this size reach it
// (McCandlish et al. 2018, section 2.2). `noise_scale`: the gradient noise scale, in tokens.
double token_efficiency(double tokens_per_step, double noise_scale);

// A question about the tokens of a training.
struct TokenQuestion {
  std::optional<double> tokens;          // of the whole training
  std::optional<double> price_per_hour;  // of one device
  std::optional<double> noise_scale;     // in tokens
};
// Refuses numbers that are not positive and finite, each with its option. `prices_failures`: the
// price is also that of what failures lose.
Status check_token_options(const TokenQuestion& question, bool prices_failures = false);

TokenCost token_cost(double tokens, const RunSpeed& speed, std::optional<double> price_per_hour);

}  // namespace trireme
