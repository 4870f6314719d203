#pragma once

#include <functional>
#include <string>

#include "train/observer.h"
#include "train/step_meter.h"

namespace trireme {

// Compares the prediction with the first steps, part by part, in one sentence. Parts that differ by
// less than a twentieth of the step are not named.
std::string comparison_of_steps(int64_t num_steps, const StepTimes& predicted,
                                const StepTimes& measured);

// Tells this comparison once, after kComparedSteps steps of a run.
class FirstSteps : public RunObserver {
 public:
  static constexpr int64_t kComparedSteps = 20;
  // `meter` and `predicted` belong to the rank whose steps are told and outlive the observer.
  FirstSteps(const StepMeter& meter, const StepTimes& predicted,
             std::function<void(const std::string&)> tell)
      : meter_(meter), predicted_(predicted), tell_(std::move(tell)) {}
  void on_step(const StepReport&) override;

 private:
  const StepMeter& meter_;
  const StepTimes& predicted_;
  std::function<void(const std::string&)> tell_;
  int64_t num_steps_ = 0;
};

}  // namespace trireme
