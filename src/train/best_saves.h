#pragma once

#include <cstdint>

#include "schema/run_config.h"
#include "train/train_position.h"

namespace trireme {

// Decides when to save a checkpoint because its validation loss is lower than that of every other
// checkpoint (checkpoint.best). All ranks have the same numbers, so all decide alike.
class BestSaves {
 public:
  // `kept` is the best validation among the checkpoints that the run directory already holds.
  BestSaves(const CheckpointConfig& checkpoint, const Validation& kept);

  bool is_on() const { return is_on_; }
  // Returns true if this position was validated and should be saved for its loss. `failed_step` is
  // the step of the last save that failed, or -1.
  bool wants(const TrainPosition& position, int64_t failed_step) const;
  // Call it when a save of the position begins, whatever the reason of the save is.
  void note_save(const TrainPosition& position, int64_t failed_step);

 private:
  // Returns the best validation with a checkpoint. If the last save failed, this is the one before.
  const Validation& best(int64_t failed_step) const;

  bool is_on_;
  Validation kept_, saved_;  // saved_ is better; its checkpoint may not be complete yet
};

}  // namespace trireme
