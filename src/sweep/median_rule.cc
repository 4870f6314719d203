#include "sweep/median_rule.h"

#include <algorithm>
#include <cmath>

#include "base/order_statistics.h"

namespace trireme {

MedianRule::MedianRule(int64_t total_steps, double grace)
    : window_(std::max<int64_t>(1, total_steps / kRungs)) {
  for (int64_t i = 1; i < kRungs; ++i) {
    const int64_t step = total_steps * i / kRungs;
    const bool is_new = step >= 1 && (rungs_.empty() || step > rungs_.back());
    if (is_new && double(step) >= grace * double(total_steps) && step < total_steps) {
      rungs_.push_back(step);
    }
  }
}

std::vector<double> MedianRule::losses_at_rungs(const TrialCurve& curve) const {
  std::vector<double> losses;
  for (const int64_t step : rungs_) {
    if (step > curve.last_step()) break;
    losses.push_back(curve.mean_loss(step, window_));
  }
  return losses;
}

std::optional<size_t> MedianRule::hopeless_rung(
    const std::vector<double>& losses, const std::vector<std::vector<double>>& former) const {
  for (size_t rung = 0; rung < losses.size(); ++rung) {
    std::vector<double> others;
    for (const std::vector<double>& one : former) {
      if (rung < one.size() && std::isfinite(one[rung])) others.push_back(one[rung]);
    }
    if (others.size() < kLeastFormer) continue;
    // If two losses are in the middle, the worse one counts, so that in doubt a trial continues.
    if (!(losses[rung] <= upper_median(std::move(others)))) return rung;
  }
  return std::nullopt;
}

}  // namespace trireme
