#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// What metrics.jsonl records of one trial. Numbers round-trip, so a curve that is read equals the
// one that was seen while it was trained.
class TrialCurve {
 public:
  struct Validation {
    int64_t step = 0;
    double loss = 0.0;
  };

  // The first step may be any: a trial that begins with the weights of a checkpoint counts from its
  // step. A step that comes again, after a rollback, replaces all from it on.
  void add_step(int64_t step, double loss, double lr);
  void add_validation(int64_t step, double loss);

  int64_t first_step() const { return first_step_; }
  // 0 if there is none.
  int64_t last_step() const {
    return losses_.empty() ? 0 : first_step_ + int64_t(losses_.size()) - 1;
  }
  // Losses of steps first_step() to last_step(); not a number where the loss is unknown or not
  // finite.
  const std::vector<double>& losses() const { return losses_; }
  const std::vector<double>& lrs() const { return lrs_; }
  const std::vector<Validation>& validations() const { return validations_; }
  // The lowest validation up to `last_step`; step 0 if there is none.
  Validation best_validation(int64_t last_step) const;

  // The mean of the losses of the last `window` steps up to `step`.
  double mean_loss(int64_t step, int64_t window) const;

 private:
  int64_t first_step_ = 1;
  std::vector<double> losses_, lrs_;
  std::vector<Validation> validations_;
};

// Reads the lines up to `last_step`. Lines that are no JSON, such as one that a crash has cut, are
// left out.
TrialCurve parse_trial_curve(std::string_view metrics, int64_t last_step = INT64_MAX);

// Reads metrics.jsonl of a run and its earlier parts. A run without it has an empty curve.
Result<TrialCurve> read_trial_curve(const std::string& run_dir, int64_t last_step = INT64_MAX);

}  // namespace trireme
