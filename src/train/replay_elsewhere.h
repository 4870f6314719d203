#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/corruption_alarm.h"
#include "base/result.h"
#include "nn/product_check.h"
#include "train/engine.h"
#include "train/ring_votes.h"

namespace trireme {

// Computes the gradient of a step on other ranks before the step computes it. Ranks that differ
// only in dp form a ring: each one computes the micro-batches of the next, with the parameters that
// all of them hold. The hash of what a rank adds to the sums over dp must be the same on both. So a
// core that is wrong in the same way each time is found, which a replay on the same rank
// (StepReplay) cannot do.
//
// The program, the messages and the memory of every rank are those of any step, so this holds on
// every layout: whole pipelines, tp, cp and ep groups trade places. Ranks that share experts trade
// as a group, so the ring steps over them.
//
// All ranks make one and call its functions in the same order.
class ReplayElsewhere {
 public:
  ReplayElsewhere(Engine& engine, uint64_t seed);

  // Why nothing can be compared, the same on all ranks; "": it can.
  const std::string& why_not() const { return why_not_; }

  // Before the step that begins with `first_sample`. Costs a step and changes nothing.
  void compute(uint64_t first_sample);
  // Directly after this step, with what it returned, and the hashes of what this rank has added to
  // its sums (Engine::hash_addends). If a hash differs, the ranks compute these samples three more
  // times to find who is wrong. Returns on all ranks an error that names the step, the ranks and
  // their hosts.
  Status compare(int64_t step, const StepResult& result, const std::vector<uint64_t>& addends);

  // The last compare() has found this; absent: nothing was wrong.
  const std::optional<CorruptionAlarm>& alarm() const { return alarm_; }
  // The last step in which nothing was wrong: of compare(), or of the checkpoint from which the run
  // has resumed.
  const std::optional<int64_t>& last_clean_step() const { return last_clean_step_; }
  void resume_after(std::optional<int64_t> clean_step) { last_clean_step_ = clean_step; }
  int64_t num_runs() const { return num_runs_; }
  double seconds() const { return double(spent_ns_) * 1e-9; }

 private:
  // This is what a rank knows of itself after all have voted; a later value says more.
  enum class Verdict : uint8_t { Unsuspected, Suspect, Outvoted, WrongProduct };

  uint64_t compute_for(int shift);
  RingHashes gather(uint64_t hash);
  Verdict judge(const RingHashes& own, const RingHashes& other);
  Error error_of(int64_t step, Verdict own);

  Engine& engine_;
  std::unique_ptr<Group> ranks_, ring_;  // not those of the steps, whose traffic is predicted
  ProductCheck products_;
  std::string why_not_;
  std::vector<uint64_t> addends_;
  uint64_t first_sample_ = 0;
  uint64_t other_hash_ = 0;  // of the next rank's addends
  double loss_sum_ = 0.0;
  std::optional<int64_t> last_clean_step_;
  std::optional<CorruptionAlarm> alarm_;
  int64_t num_runs_ = 0;
  int64_t spent_ns_ = 0;
};

}  // namespace trireme
