#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/observer.h"
#include "train/run_save.h"
#include "train/train_position.h"

namespace trireme {

struct SaveCounts {
  int64_t saved = 0;     // checkpoints that exist now or were removed as old ones
  int64_t failed = 0;    // saves beside training that failed
  int64_t late = 0;      // saves that were due while the one before was still being written
  double stall_s = 0.0;  // how long training stood still for saves beside it
};

// Saves a run, one checkpoint at a time. All ranks call its functions in the same order, between
// two steps.
class CheckpointSaver {
 public:
  using MakeRequest = std::function<SaveRequest(const TrainPosition&)>;

  // `observers` are told of every checkpoint and of every failure; empty except on the first rank.
  CheckpointSaver(Engine& engine, MakeRequest request, std::vector<RunObserver*> observers);
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Writes a checkpoint while training stands still.
  Status save(const TrainPosition& position);
  // Begins to write a checkpoint beside training. If the one before is still being written, it is
  // waited for. A failure is told, and the next save tries again.
  void start(const TrainPosition& position);
  // Does what the save that is under way needs between two steps.
  void advance();
  // Waits for the save that is under way. Returns the error of the last save beside training, if no
  // checkpoint was saved after it.
  Status finish();

  const SaveCounts& counts() const { return counts_; }

 private:
  void tell(const std::string& message) const;
  void end_if_over();

  Engine& engine_;
  std::unique_ptr<Group> ranks_;  // not that of the steps, whose traffic is predicted
  MakeRequest request_;
  std::vector<RunObserver*> observers_;
  std::unique_ptr<RunSave> save_;  // the one that is under way beside training
  int64_t begin_ns_ = 0;
  int64_t stall_ns_ = 0;  // of save_
  Status last_ = Done{};  // of the last save
  SaveCounts counts_;
};

}  // namespace trireme
