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
  int64_t saved = 0;            // checkpoints that exist now or were removed as old ones
  int64_t failed = 0;           // saves that failed, also if the second try was successful
  int64_t late = 0;             // saves that were due while the one before was still being written
  double stall_s = 0.0;         // how long training stood still for saves beside it
  double waited_s = 0.0;        // and for saves for which it waits
  int64_t in_memory = 0;        // checkpoints that a MemorySaver has committed
  double memory_stall_s = 0.0;  // how long training stood still for them
  int64_t memory_sent_bytes = 0;   // what this rank has sent for their parity
  int64_t memory_skipped = 0;      // checkpoints that were due while the former one was made
  int64_t memory_most_apart = 0;   // greatest number of steps between two of them
  int64_t memory_most_redone = 0;  // whole steps that a lost rank would have cost at worst
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

  // Writes a checkpoint while training stands still. After a failure the observers may make room,
  // and it is tried once more.
  Status save(const TrainPosition& position);
  // As save(), but a failure is only told to the observers, and the next save tries again.
  void try_save(const TrainPosition& position);
  // Begins to write a checkpoint beside training. If the former save is not over, this call waits
  // for it. The observers are told of a failure, and the next save tries again.
  void start(const TrainPosition& position);
  // Advances the save that is under way. The ranks call this between two steps.
  void advance();
  // Waits for the save that is under way. Returns the error of the last start() or try_save(), if
  // no checkpoint was saved after it.
  Status finish();

  const SaveCounts& counts() const { return counts_; }
  // The step of the last save that failed, or -1.
  int64_t last_failed_step() const { return last_failed_step_; }
  // How long training stood still for all saves so far, also for the one that is under way.
  double standing_s() const;
  // Gathers a text of every rank on all ranks, beside the groups whose traffic is predicted.
  std::vector<std::string> gather(const std::string& text);

 private:
  void tell(const std::string& message) const;
  // Tells the observers how a save ended. Returns its error if it failed.
  Status conclude(const RunSave& save, double time_s, std::optional<double> stall_s);
  Status save_now(const TrainPosition& position);
  void note_failure(int64_t step, const Error& error);
  void end_if_over();

  Engine& engine_;
  std::unique_ptr<Group> ranks_;  // not that of the steps, whose traffic is predicted
  MakeRequest request_;
  std::vector<RunObserver*> observers_;
  std::unique_ptr<RunSave> save_;  // the one that is under way beside training
  int64_t begin_ns_ = 0;
  int64_t stall_ns_ = 0;  // how long training stood still for save_
  Status last_ = Done{};  // the result of the last save
  int64_t last_failed_step_ = -1;
  SaveCounts counts_;
};

}  // namespace trireme
