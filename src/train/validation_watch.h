#pragma once

#include <cstdint>
#include <string>

#include "train/train_position.h"

namespace trireme {

// Follows the validation losses of a run. It finds the best one, and notices when the validation
// loss rises while the training loss falls. It reads only losses that all ranks know, so all ranks
// decide alike.
class ValidationWatch {
 public:
  // Adds the training loss of a step.
  void note_step(double loss);
  // Enters a validation into the position. Returns a message for the user, or "" if there is none.
  // A loss that is not finite is never the best.
  std::string see(const Validation& now, TrainPosition& position);

 private:
  double sum_ = 0.0;  // of the training losses since the last validation
  int64_t num_ = 0;
  double former_mean_ = 0.0;  // of the training losses before the last validation; 0: none
  int64_t num_rises_ = 0;     // validations in a row that were worse than the one before
  bool has_told_ = false;     // the user was told since the best validation
};

}  // namespace trireme
