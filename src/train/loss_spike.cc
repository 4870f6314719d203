#include "train/loss_spike.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trireme {

bool LossSpike::sees(double loss) {
  z_score_ = 0.0;
  if (window_.size() >= kFewest) {
    const auto n = double(window_.size());
    const double mean = std::accumulate(window_.begin(), window_.end(), 0.0) / n;
    double squares = 0.0;
    for (const double earlier : window_) squares += (earlier - mean) * (earlier - mean);
    const double deviation = std::max(std::sqrt(squares / n), kLeastDeviation * std::abs(mean));
    z_score_ =
        std::isfinite(loss) ? (loss - mean) / deviation : std::numeric_limits<double>::infinity();
    if (z_score_ > kZScore) return true;
  }
  if (!std::isfinite(loss)) return false;
  window_.push_back(loss);
  if (window_.size() > kWindow) window_.pop_front();
  return false;
}

}  // namespace trireme
