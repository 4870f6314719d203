#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/corruption_alarm.h"
#include "base/result.h"
#include "train/gather_named.h"
#include "train/state_tensors.h"

namespace trireme {

// Computes the losses and the gradient of a step twice, first without an update, then as the step
// itself, and compares every bit: a step is deterministic, so a difference is damage to a
// computation, a message or a memory during one of the two. What each rank adds to the sums over dp
// is compared for itself, which tells a rank that computed something else from a wrong message. All
// ranks make one and call its functions in the same order.
class StepReplay {
 public:
  explicit StepReplay(Engine& engine);

  // Before the step that begins with `first_sample`. Costs a step and changes nothing.
  void compute(uint64_t first_sample);
  // Directly after this step, with what it returned, and before anything of the next one has begun.
  // `addends`: the hashes of what this rank has added to its sums (Engine::hash_addends). Returns
  // on all ranks an error that names the step, the ranks and the tensors, if a bit differs.
  Status compare(int64_t step, const StepResult& result, const std::vector<uint64_t>& addends);

  // The last compare() has found this; absent: nothing was wrong.
  const std::optional<CorruptionAlarm>& alarm() const { return alarm_; }
  int64_t num_runs() const { return num_runs_; }
  double seconds() const { return double(spent_ns_) * 1e-9; }

 private:
  void hash_grads();
  Error error_of(int64_t step, const std::vector<std::string>& different, bool addends_differ);
  std::string cause(const NamedRanks& culprits, bool differs_only_loss);

  Engine& engine_;
  std::unique_ptr<Group> ranks_;  // not that of the steps, whose traffic is predicted
  std::vector<StateTensor> grads_;
  TensorHashes hashes_;
  // What the first computation has left.
  double loss_sum_ = 0.0, grad_norm_ = 0.0;
  std::vector<uint64_t> grad_hashes_;
  std::vector<uint64_t> addends_;  // hashes, in the order of the sums
  std::optional<CorruptionAlarm> alarm_;
  int64_t num_runs_ = 0;
  int64_t spent_ns_ = 0;
};

}  // namespace trireme
