#pragma once

#include <functional>
#include <memory>
#include <string>

#include "train/checkpoint_saver.h"

namespace trireme {

// Keeps the newest checkpoint of a run in a folder of the host's memory, from which the job resumes
// if it loses a rank. All ranks call its functions in the same order, between two steps. A
// checkpoint is written beside the next step, before its update, and committed after that step.
class MemorySaver {
 public:
  // `tell` gets a sentence if saving fails; only that of the first rank is called.
  MemorySaver(Engine& engine, CheckpointSaver::MakeRequest request,
              std::function<void(const std::string&)> tell);
  ~MemorySaver();
  MemorySaver(const MemorySaver&) = delete;
  MemorySaver& operator=(const MemorySaver&) = delete;

  // Begins a checkpoint. The former one must be over.
  void start(const TrainPosition& position);
  // Commits the checkpoint that was begun before the last step, if there is one. After a failure,
  // no checkpoint is begun any more, and the former one stays.
  void finish();

  int64_t saved() const { return saved_; }
  double stall_s() const { return static_cast<double>(stall_ns_) * 1e-9; }

 private:
  Engine& engine_;
  std::unique_ptr<Group> ranks_;
  CheckpointSaver::MakeRequest request_;
  std::function<void(const std::string&)> tell_;
  std::unique_ptr<RunSave> save_;
  std::string newest_;  // the last checkpoint that was committed
  bool has_failed_ = false;
  int64_t saved_ = 0;
  int64_t stall_ns_ = 0;
};

}  // namespace trireme
