#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/check_state.h"
#include "train/checked_products.h"
#include "train/replay_elsewhere.h"
#include "train/step_replay.h"

namespace trireme {

// What the checks of a run for silent corruption have done and cost on this rank.
struct CorruptionCounts {
  int64_t state_checks = 0;
  double state_check_s = 0.0;
  int64_t compared_bytes = 0;  // of this rank's state: what other ranks hold, too
  int64_t state_bytes = 0;
  int64_t replays = 0;
  double replay_s = 0.0;
  int64_t replays_elsewhere = 0;
  double replay_elsewhere_s = 0.0;
  int64_t products = 0;
  double products_s = 0.0;
};

// The checks of a run for silent corruption (run.check_state_every, run.replay_every,
// run.replay_elsewhere_every, run.check_products_every) and when they are due. All ranks call its
// functions in the same order. Every decision depends only on the configuration and the arguments,
// so all ranks agree.
class CorruptionChecks {
 public:
  CorruptionChecks(Engine& engine, const RunSection& run);

  // True if a check needs that nothing of the next step begins before this one is over.
  bool needs_end_of(int64_t step) const;
  // Directly before and after a step.
  void begin(int64_t step, uint64_t first_sample);
  void end(int64_t step, const StepResult& result);
  // After a step, before anything is saved. If a save comes next, the state is compared in any
  // case, so that no checkpoint holds state about which the ranks disagree.
  Status verdict(int64_t step, bool saves_next);

  // The last step in which a replay on another rank has found nothing, in this start of the run or
  // before the checkpoint from which it has resumed; absent: none, or nobody knows.
  std::optional<int64_t> clean_step() const;
  void resume_after(std::optional<int64_t> clean_step);

  // Returns the alarm of the check whose error verdict() has returned; absent: there was none.
  std::optional<CorruptionAlarm> alarm() const;

  // Says which check that is asked for cannot run, and why; "": all can. The same on all ranks.
  std::string why_not() const;
  CorruptionCounts counts() const;

 private:
  bool replays(int64_t step) const;
  bool replays_elsewhere(int64_t step) const;
  bool compares(int64_t step) const;
  bool checks_products(int64_t step) const;

  Engine& engine_;
  const RunSection& run_;
  std::optional<StateCheck> state_;           // absent: never
  std::optional<StepReplay> replay_;          // absent: never
  std::optional<ReplayElsewhere> elsewhere_;  // absent: never
  std::optional<CheckedProducts> products_;   // absent: never
  std::vector<uint64_t> addends_;             // hashes, of a step that is compared
  Status multiplied_ = Done{}, elsewhere_found_ = Done{}, replayed_ = Done{};  // of the last step
};

}  // namespace trireme
