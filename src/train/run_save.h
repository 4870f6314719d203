#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/background_job.h"
#include "checkpoint/memory_shards.h"
#include "checkpoint/save.h"
#include "checkpoint/state_shard.h"
#include "train/engine.h"

namespace trireme {

// How a rank takes part in a save into the memory of its host. Each host has a folder of its own.
struct MemoryPart {
  int keeper = 0;  // the rank that makes and commits the folder of this rank's host
  std::string
      newest;  // in the folder, beside which all older ones are removed; "": none is removed
  // Returns the content of hosts.json for this index.
  std::function<std::string(const std::string& index)> record;
  MemoryShards* shards = nullptr;  // of this rank
  StateShard* state = nullptr;     // what it writes there; some copies may be made already
  // Every rank's job calls it once with the temporary folder, after its shard has its name there
  // or could not get it. Absent: one host.
  std::function<Status(const std::string& folder, Progress& progress,
                       const std::atomic<bool>& is_abandoned)>
      protect = {};
};

// What a save writes beside the tensors, and where it goes. The roots are used on rank 0,
// or on the keeper of each host.
struct SaveRequest {
  CheckpointInfo info;
  std::span<const AttachedFile> attached;  // borrowed until the save is over
  Result<std::string> root;   // the folder of checkpoints, or the error that there is none
  std::string fallback_root;  // used if saving to `root` fails; "": none
  std::optional<MemoryPart> memory = std::nullopt;  // of SaveMode::Memory
  // Makes the finished checkpoint visible, see SaveOptions; empty: nothing is asked.
  std::function<Status(const std::function<Status()>&)> publish = {};
};

enum class SaveMode {
  Wait,    // training stands still, and tensors are written from where they are
  Beside,  // they are copied beside the next step, and written while training continues
  // Training stands still while all threads of the rank copy what the update has not copied. The
  // rest of the work is done beside the next step.
  Memory,
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

  // The path of the checkpoint, on this rank's host, or the error of the first rank that failed.
  // All ranks succeed or fail with the same error. It is valid once the save is over.
  const Result<std::string>& result() const { return result_; }
  // Why the fallback is used, or "".
  const std::string& failure_of_root() const { return failure_of_root_; }

 private:
  enum class Phase { Write, Commit, Abandon, Over };
  // If the copy has failed, pieces_ are those of the live tensors, which the next step changes.
  enum class CopyState { Pending, Done, Failed };

  // The rank that makes and commits the folder.
  int keeper() const { return request_.memory ? request_.memory->keeper : 0; }
  bool is_keeper() const { return ranks_.rank() == keeper(); }
  void begin_in(const Result<std::string>& root);
  void begin_in_memory();
  void enter(Phase phase, BackgroundJob::Function job);
  void next_phase();
  void fail(const Error& error);
  bool a_copy_failed() const;
  SaveOptions options(Progress& progress) const;
  Status publish(const std::function<Status()>& rename) const;
  class Reading;
  Result<std::string> write(Progress& progress);
  Status copy_to_memory();
  Result<std::string> write_in_memory(Progress& progress);
  Result<std::string> finish_in_memory(Progress& progress) const;
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
  std::vector<std::string> memory_parts_;  // [rank] of the index, in SaveMode::Memory
  CopyState copy_ = CopyState::Pending;
  mutable std::mutex mutex_;  // of copy_, which the job changes
  std::condition_variable copied_;
  std::atomic<bool> is_abandoned_ = false;
  BackgroundJob job_;
};

}  // namespace trireme
