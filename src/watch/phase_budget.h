#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "watch/rank_sample.h"

namespace trireme {

// How long one rank may show no progress before it counts as hanging. The budget of a step is
// learned: max(floor, 5 x p99 of the last 50 steps), where the first steps of an epoch do not
// count. The other phases may take as long as the run is configured to wait.
class PhaseBudget {
 public:
  static constexpr int64_t kFloorNs = 1'000'000'000;
  static constexpr int kWindow = 50;       // steps
  static constexpr int kFirstSteps = 3;    // of an epoch, which are slower
  static constexpr int kLeastLearned = 5;  // steps, before the learned budget is used
  static constexpr double kFactor = 5.0;
  // The budget of a stopped process until enough steps are known. It can be short, because the
  // process does not work.
  static constexpr int64_t kUnknownStoppedNs = 2'000'000'000;

  // A step of the epoch is done, the `number`-th one from 1.
  void add_step(int64_t number, int64_t took_ns);
  void begin_epoch() { num_ = 0; }

  // Of the rank in its phase.
  int64_t in_phase_ns(const RankSample& sample) const;
  // Of a step, whatever the phase is.
  int64_t of_step_ns(const RankSample& sample) const;
  // Returns the budget of a process that is stopped (SIGSTOP), in any phase.
  int64_t of_stopped_ns(const RankSample& sample) const;
  // After which a rank hangs although no other rank waits for it.
  static int64_t most_ns(const RankSample& sample);

 private:
  std::array<int64_t, kWindow> took_ns_ = {};  // ring buffer
  size_t num_ = 0;                             // steps added
};

}  // namespace trireme
