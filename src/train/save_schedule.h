#pragma once

#include <cstdint>

#include "schema/run_config.h"

namespace trireme {

// The steps between two saves of each tier, as the first rank wants them, and after how many steps
// the ranks should agree on them again.
struct SaveIntervals {
  int64_t disk = 0;  // 0: not yet known
  int64_t memory = 0;
  int64_t agree_after = 1;
};

// True after each `every`th step; 0: never.
inline bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

// When a tier is saved. All ranks hold the same one: a number that is configured never changes, and
// one that is "auto" changes only when all ranks set it.
class SaveSchedule {
 public:
  // The run begins after `step`.
  SaveSchedule(int64_t configured, int64_t step)
      : is_auto_(configured == kAutoSteps), interval_(is_auto_ ? 0 : configured), last_(step) {}

  void set(int64_t interval) {
    if (is_auto_) interval_ = interval;
  }
  bool is_due(int64_t step) const {
    if (interval_ <= 0) return false;
    return is_auto_ ? step >= last_ + interval_ : step % interval_ == 0;
  }
  void note_save(int64_t step) { last_ = step; }

 private:
  bool is_auto_;
  int64_t interval_;  // 0: none yet, or never
  int64_t last_;      // step of the last save
};

}  // namespace trireme
