#pragma once

#include <functional>
#include <string>

#include "predict/op_times.h"
#include "train/engine.h"
#include "train/observer.h"
#include "train/step_meter.h"

namespace trireme {

// Compares the prediction with the first steps, part by part, in one sentence. Parts that differ by
// less than a twentieth of the step are not named.
std::string comparison_of_steps(int64_t num_steps, const StepTimes& predicted,
                                const StepTimes& measured);

// Names the ops whose times are furthest from their prices, at most three and none that is off by
// less than a hundredth of the step; "" if there is none.
std::string comparison_of_ops(const OpComparison& ops, double step_s);

// What one rank was predicted to take, and who measures it.
struct PredictedSteps {
  StepTimes times;
  std::vector<OpTimes> ops;
};

// Times the ops of the first steps but for the first two, and tells both comparisons once, after
// kComparedSteps steps of a run. `meter` and `engine` belong to the rank that is compared and
// outlive the observer.
class FirstSteps : public RunObserver {
 public:
  static constexpr int64_t kUntimedSteps = 2, kComparedSteps = 20;
  FirstSteps(const StepMeter& meter, Engine& engine, PredictedSteps predicted,
             std::function<void(const std::string&)> tell)
      : meter_(meter), engine_(engine), predicted_(std::move(predicted)), tell_(std::move(tell)) {}
  void on_step(const StepReport&) override;
  // The ops of a step as the timed ones were on average; `measured` is empty if there were none.
  OpComparison ops() const;

 private:
  const StepMeter& meter_;
  Engine& engine_;
  PredictedSteps predicted_;
  std::function<void(const std::string&)> tell_;
  int64_t num_steps_ = 0;
};

}  // namespace trireme
