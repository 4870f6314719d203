#pragma once

#include <vector>

#include "train/step_meter.h"
#include "train/trainer.h"

namespace trireme {

// Makes the steps of a session: either all ranks together or a parameter server.
class StepMaker {
 public:
  virtual ~StepMaker() = default;
  // Adds the traffic that the programs of the plan do not contain.
  virtual void complete(Predictions&) const {}
  // Called before the first step, at `position`.
  virtual void begin(const TrainPosition& position) = 0;
  // Sets how the trainer makes a step and what it records.
  virtual void direct(TrainerParts& parts) = 0;
  // Called by all ranks after the last step. Returns the measurements of each rank that computes.
  virtual std::vector<RankMeasurement> finish() = 0;
};

// All ranks of the engine's world make a step together.
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
