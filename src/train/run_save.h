#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/background_job.h"
#include "checkpoint/save.h"
#include "train/engine.h"

namespace trireme {

// What a save writes beside the tensors, and where it goes. The roots are used on rank 0, and by
// MemorySaver on every rank.
struct SaveRequest {
  CheckpointInfo info;
  std::span<const AttachedFile> attached;  // borrowed until the save is over
  Result<std::string> root;   // the folder of checkpoints, or the error that there is none
  std::string fallback_root;  // used if saving to `root` fails; "": none
  // Makes the finished checkpoint visible, see SaveOptions; empty: nothing is asked.
  std::function<Status(const std::function<Status()>&)> publish = {};
};

enum class SaveMode {
  Wait,    // training stands still, and tensors are written from where they are
  Beside,  // they are copied beside the next step, and written while training continues
};

// One save by all ranks of a group, which call its functions in the same order. Each rank's job
// writes that rank's tensors. Between two steps, the threads that train exchange the data on which
// the ranks must agree: the path of the temporary folder, the parts of the index, the result. A job
// therefore needs no communication and works the same on every backend.
class RunSave {
 public:
  RunSave(Engine& engine, Group& ranks, SaveRequest request, SaveMode mode);
  ~RunSave();  // leaves no temporary folder
  RunSave(const RunSave&) = delete;
  RunSave& operator=(const RunSave&) = delete;

  int64_t step() const { return request_.info.step; }
  bool is_over() const { return phase_ == Phase::Over; }

  // Makes the temporary folder and starts to copy and to write, or writes at once (SaveMode::Wait).
  void begin();
  // Waits until this rank's tensors may be changed.
  void wait_for_copy();
  // Enters the next phase if every rank has finished its job. It does not wait for a job.
  void advance();
  // Waits for all phases until the save is over.
  void finish();

  // The path of the checkpoint, or the error of the first rank that failed.
  // All ranks succeed or fail with the same error. It is valid once the save is over.
  const Result<std::string>& result() const { return result_; }
  // Why the fallback is used, or "".
  const std::string& failure_of_root() const { return failure_of_root_; }

 private:
  enum class Phase { Write, Commit, Abandon, Over };
  // If the copy has failed, pieces_ are those of the live tensors, which the next step changes.
  enum class CopyState { Pending, Done, Failed };

  // The first rank makes and commits the folder.
  bool is_keeper() const { return ranks_.rank() == 0; }
  void begin_in(const Result<std::string>& root);
  void enter(Phase phase, BackgroundJob::Function job);
  void next_phase();
  void fail(const Error& error);
  bool a_copy_failed() const;
  SaveOptions options(Progress& progress) const;
  Status publish(const std::function<Status()>& rename) const;
  class Reading;
  Result<std::string> write(Progress& progress);
  Result<std::string> commit(const std::vector<std::string>& parts, Progress& progress) const;
  void copy();

  Engine& engine_;
  Group& ranks_;
  const SaveRequest request_;
  const SaveMode mode_;
  Phase phase_ = Phase::Write;
  std::string folder_;  // the temporary one
  bool is_on_fallback_ = false;
  std::string failure_of_root_;
  Result<std::string> result_ = std::string();
  std::vector<TensorPiece> pieces_;
  CopyState copy_ = CopyState::Pending;
  mutable std::mutex mutex_;  // of copy_, which the job changes
  std::condition_variable copied_;
  std::atomic<bool> is_abandoned_ = false;
  BackgroundJob job_;
};

}  // namespace trireme
