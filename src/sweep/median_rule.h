#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sweep/trial_curve.h"

namespace trireme {

// The median stopping rule in the way of Google Vizier (Golovin et al. 2017): a trial is
// hopeless if its smoothed loss at a step is worse than the median of the former trials' losses at
// the same step. Trials are compared at rungs: kRungs evenly spaced steps, but neither within the
// share `grace` of the steps nor at the last step. The smoothed loss is the mean of the steps since
// the rung before.
class MedianRule {
 public:
  static constexpr int64_t kRungs = 20;
  // With fewer former trials at a rung nobody knows yet what is good.
  static constexpr size_t kLeastFormer = 2;

  MedianRule(int64_t total_steps, double grace);

  const std::vector<int64_t>& rungs() const { return rungs_; }  // ascending steps
  int64_t window() const { return window_; }                    // steps of a smoothed loss

  // Returns the smoothed losses of the rungs that the curve has reached.
  std::vector<double> losses_at_rungs(const TrialCurve& curve) const;

  // Returns the first rung at which a trial with these losses is hopeless beside the former ones,
  // or nullopt. Each vector has the losses of the rungs that a trial has reached.
  std::optional<size_t> hopeless_rung(const std::vector<double>& losses,
                                      const std::vector<std::vector<double>>& former) const;

 private:
  std::vector<int64_t> rungs_;
  int64_t window_ = 1;
};

}  // namespace trireme
