#include "train/validation_watch.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

// One worse validation may be noise, and so may one that is hardly worse than the best.
constexpr int64_t kFewestRises = 2;
constexpr double kLeastRise = 1.01;

}  // namespace

void ValidationWatch::note_step(double loss) {
  if (!std::isfinite(loss)) return;
  sum_ += loss;
  ++num_;
}

std::string ValidationWatch::see(const Validation& now, TrainPosition& position) {
  const double mean = num_ > 0 ? sum_ / double(num_) : 0.0;
  const bool falls = former_mean_ > 0.0 && num_ > 0 && mean < former_mean_;
  const Validation last = position.last_validation;
  Validation& best = position.best_validation;
  const bool is_best = std::isfinite(now.loss) && (!best.is_known() || now.loss < best.loss);
  num_rises_ = last.is_known() && !(now.loss <= last.loss) ? num_rises_ + 1 : 0;
  position.last_validation = now;
  position.validations_since_best = is_best ? 0 : position.validations_since_best + 1;
  if (is_best) best = now;
  if (is_best) has_told_ = false;
  std::string text;
  const bool rises =
      num_rises_ >= kFewestRises && best.is_known() && now.loss > kLeastRise * best.loss;
  if (rises && falls && !has_told_) {
    has_told_ = true;
    text = fmt::format(
        "step {}: the validation loss rises ({:.4f} at step {}, {:.4f} now) while the training "
        "loss falls ({:.4f} to {:.4f}): the model memorizes its training data; it "
        "was best after step {}",
        now.step, best.loss, best.step, now.loss, former_mean_, mean, best.step);
  }
  if (num_ > 0) former_mean_ = mean;
  sum_ = 0.0;
  num_ = 0;
  return text;
}

}  // namespace trireme
