#pragma once

#include <vector>

#include "train/step_meter.h"
#include "train/trainer.h"

namespace trireme {

// Who makes the steps of a session, for the ranks that record them.
class StepMaker {
 public:
  virtual ~StepMaker() = default;
  // What is sent beside what the plan's programs send.
  virtual void complete(Predictions&) const {}
  // Before the first step, at `position`.
  virtual void begin(const TrainPosition& position) = 0;
  // How a step is made, and what is kept of it.
  virtual void direct(TrainerParts& parts) = 0;
  // After the last step: what each rank that computes has measured. All ranks call it.
  virtual std::vector<RankMeasurement> finish() = 0;
};

// All ranks of the engine's world together.
class StepsTogether : public StepMaker {
 public:
  explicit StepsTogether(Engine& engine) : engine_(engine), meter_(engine) {}
  void begin(const TrainPosition&) override {}
  void direct(TrainerParts& parts) override { parts.meter = &meter_; }
  std::vector<RankMeasurement> finish() override { return gather_measurements(engine_, meter_); }

 private:
  Engine& engine_;
  StepMeter meter_;
};

}  // namespace trireme
