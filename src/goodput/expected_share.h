#pragma once

#include <span>

namespace trireme {

// How often a tier of checkpoints is written, and what that costs.
struct SavePolicy {
  double interval_s = 0.0;  // of training between two saves
  double save_s = 0.0;      // for which training waits
  double delay_s = 0.0;     // from then until the checkpoint can be used
};

// Returns the interval that loses the least time, to first order: sqrt(2 w M) (Young 1974). w is
// the time of a save, and M is the mean time to failure.
double young_interval_s(double save_s, double mttf_s);

// The same with Daly's higher orders (2006) for w < 2 M, else M.
double daly_interval_s(double save_s, double mttf_s);

// Failures that cost the same: those from which a job resumes from the same tier.
struct FailuresOfTier {
  double per_s = 0.0;
  double restart_s = 0.0;
};

// The effective share of a job by the formula of Kokolis et al. (2025), for one or several tiers:
//   (1 - sum over tiers of rate x (restart + delay + interval / 2)) / (1 + sum of save / interval)
// Failures of failures[i] resume from tiers[i]. The result is at least 0. The formula holds while
// a failure rarely falls into the recovery from another one, so rate x (restart + interval / 2)
// must be small.
double expected_share(std::span<const SavePolicy> tiers, std::span<const FailuresOfTier> failures);

// The part of the formula that failures lose.
double lost_by_failures(std::span<const SavePolicy> tiers,
                        std::span<const FailuresOfTier> failures);

}  // namespace trireme
