#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/corruption_alarm.h"
#include "base/result.h"
#include "train/state_tensors.h"

namespace trireme {

// Compares the state that several ranks hold alike: parameters, master weights and moments of ranks
// that differ only in dp, shards of several replicas, norms over tp, tied tables. Such ranks
// compute the same bits, so a difference is damage to memory, a computation or a message.
//
// It finds by itself which ranks hold what. All ranks make one, and call run() in the same order,
// between two steps. Each call sends 8 bytes for every group of ranks with the same tensors, and 8
// bytes over all, in groups of its own.
class StateCheck {
 public:
  explicit StateCheck(Engine& engine);

  // Returns on all ranks an error that names the step, the tensors and the ranks, if a hash
  // differs. With three or more holders, those that differ from the majority are named.
  Status run(int64_t step);

  // The last run() has found this; absent: nothing was wrong.
  const std::optional<CorruptionAlarm>& alarm() const { return alarm_; }
  // Of this rank's state: what at least one other rank holds, too, and everything.
  int64_t compared_bytes() const { return hashes_.num_bytes(); }
  int64_t state_bytes() const { return state_bytes_; }
  int64_t num_runs() const { return num_runs_; }
  double seconds() const { return double(spent_ns_) * 1e-9; }

 private:
  // Tensors that the same ranks hold.
  struct Holders {
    std::unique_ptr<Group> group;
    std::vector<size_t> tensors;  // of compared_, in the same order on all ranks
    std::vector<int64_t> words;   // [rank of the group] of the last exchange
  };

  void find_holders(std::vector<StateTensor> tensors);
  bool differs(Holders& holders);
  // Adds a line for each tensor that differs, and returns how much this rank is suspected.
  int describe(Holders& holders, std::vector<std::string>& lines);
  Error error_of(int64_t step, const std::vector<std::string>& lines);

  Engine& engine_;
  std::unique_ptr<Group> ranks_;  // not that of the steps, whose traffic is predicted
  std::vector<StateTensor> compared_;
  std::vector<Holders> holders_;
  TensorHashes hashes_;
  int64_t state_bytes_ = 0;
  int64_t num_runs_ = 0;
  int64_t spent_ns_ = 0;
  std::optional<CorruptionAlarm> alarm_;
};

}  // namespace trireme
