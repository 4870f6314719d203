#pragma once

#include <cstdint>

namespace trireme {

// The prior of the rate of a job's failures is a mixture of two Gamma distributions. Most jobs fail
// as their hosts do: so often per host and day in the mean, with shape 1.
inline constexpr double kPriorPerHostDay = 5e-3;
// One job in a hundred fails about once a minute (shape 1/2), for a reason of its own.
inline constexpr double kShareOfFailingJobs = 0.01;
inline constexpr double kFailingJobS = 60.0;

// The mean of the posterior after so many failures in so much time. Of a Gamma distribution with
// shape a and rate b it is (a + failures) / (b + time); the weights of the two follow from how
// likely the failures are under each.
double posterior_failures_per_s(int64_t hosts, int64_t failures, double seconds);

// The steps between two saves that lose the least time by Daly's interval. `save_s` is the time for
// which training waits. Between 1 and the steps of an hour, because users resume runs, too.
int64_t best_steps_between_saves(double save_s, double failures_per_s, double step_s);

}  // namespace trireme
