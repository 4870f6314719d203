#pragma once

#include <cstddef>
#include <deque>

namespace trireme {

// Notices a loss that is far above those before it, by its z-score over the last steps. All ranks
// have the same losses, so they agree.
class LossSpike {
 public:
  static constexpr size_t kWindow = 64;   // steps
  static constexpr size_t kFewest = 16;   // steps until a loss can be judged
  static constexpr double kZScore = 6.0;  // above it, a loss is a spike
  // A window of nearly equal losses is taken to vary by this share of them.
  static constexpr double kLeastDeviation = 0.005;

  // Returns true if the loss is a spike, or no number. A spike does not enter the window.
  bool sees(double loss);
  double z_score() const { return z_score_; }  // of the last loss; 0: it could not be judged

 private:
  std::deque<double> window_;
  double z_score_ = 0.0;
};

}  // namespace trireme
