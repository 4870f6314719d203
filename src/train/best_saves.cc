#include "train/best_saves.h"

#include <cmath>

namespace trireme {

// A run without checkpoints (checkpoint.every = 0, checkpoint.at_end = false) also saves no best
// one.
BestSaves::BestSaves(const CheckpointConfig& checkpoint, const Validation& kept)
    : is_on_(checkpoint.best == BestChoice::ValLoss &&
             (checkpoint.every != 0 || checkpoint.at_end)),
      kept_(kept) {}

const Validation& BestSaves::best(int64_t failed_step) const {
  return saved_.is_known() && saved_.step != failed_step ? saved_ : kept_;
}

bool BestSaves::wants(const TrainPosition& position, int64_t failed_step) const {
  const Validation& last = position.last_validation;
  if (!is_on_ || last.step != position.step || !std::isfinite(last.loss)) return false;
  const Validation& best = this->best(failed_step);
  return !best.is_known() || last.loss < best.loss;
}

void BestSaves::note_save(const TrainPosition& position, int64_t failed_step) {
  if (!wants(position, failed_step)) return;
  kept_ = best(failed_step);
  saved_ = position.last_validation;
}

}  // namespace trireme
