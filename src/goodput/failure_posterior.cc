#include "goodput/failure_posterior.h"

#include <algorithm>
#include <cmath>

#include "goodput/expected_share.h"
#include "goodput/failure_rates.h"

namespace trireme {
namespace {

constexpr double kLongestS = 3600.0;  // between two saves

// A distribution of a rate.
struct Gamma {
  double shape;
  double time_s;

  // Of the posterior after n failures in some time.
  double mean(double n, double seconds) const { return (shape + n) / (time_s + seconds); }
  // Logarithm of the likelihood of n failures in some time, but for what no Gamma changes.
  double log_likelihood(double n, double seconds) const {
    return std::lgamma(shape + n) - std::lgamma(shape) + shape * std::log(time_s) -
           (shape + n) * std::log(time_s + seconds);
  }
};

}  // namespace

double posterior_failures_per_s(int64_t hosts, int64_t failures, double seconds) {
  const auto n = double(failures);
  const Gamma as_hosts{1.0, kSecondsOfDay / (double(hosts) * kPriorPerHostDay)};
  const Gamma by_itself{0.5, 0.5 * kFailingJobS};
  const double log_odds = as_hosts.log_likelihood(n, seconds) -
                          by_itself.log_likelihood(n, seconds) +
                          std::log((1.0 - kShareOfFailingJobs) / kShareOfFailingJobs);
  const double share = 1.0 / (1.0 + std::exp(log_odds));  // of jobs that fail by themselves
  return std::lerp(as_hosts.mean(n, seconds), by_itself.mean(n, seconds), share);
}

int64_t best_steps_between_saves(double save_s, double failures_per_s, double step_s) {
  const double interval_s = std::min(daly_interval_s(save_s, 1.0 / failures_per_s), kLongestS);
  return std::max<int64_t>(1, std::llround(interval_s / step_s));
}

}  // namespace trireme
