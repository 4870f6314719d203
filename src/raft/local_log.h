#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "raft/command_log.h"
#include "raft/log_file.h"
#include "raft/state_machine.h"

namespace trireme {

// A CommandLog on the disk of one server. Commands that arrive while the disk is busy are written
// together, so that they share one sync.
class LocalLog : public CommandLog {
 public:
  static constexpr int64_t kEntriesPerSnapshot = 100'000;
  static constexpr int64_t kBytesPerSnapshot = int64_t{256} << 20;  // of the log

  // Restores the state of `machine` from the folder, which is made if it is missing. The machine
  // must outlive the log, and only the log may call it.
  static Result<std::unique_ptr<LocalLog>> open(const std::string& folder, StateMachine& machine,
                                                int64_t entries_per_snapshot = kEntriesPerSnapshot);
  // Waits for calls that are running.
  ~LocalLog() override;

  Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<AppliedAnswer> query(const std::string& question, Deadline deadline) override;

 private:
  struct Call {
    std::string command;
    std::optional<Result<std::string>> answer;
  };
  using Batch = std::vector<std::shared_ptr<Call>>;  // shared with the threads that wait

  LocalLog(LogFile file, StateMachine& machine, int64_t entries_per_snapshot)
      : file_(std::move(file)), machine_(machine), entries_per_snapshot_(entries_per_snapshot) {}
  Status restore(LogContents contents);
  Status write(const Batch& batch);
  Status save_snapshot_if_due();
  void do_batch(const Batch& batch);

  LogFile file_;                     // only the thread that writes calls it
  StateMachine& machine_;            // guarded by machine_mutex_
  std::shared_mutex machine_mutex_;  // taken after mutex_, never before it
  const int64_t entries_per_snapshot_;
  int64_t last_index_ = 0;      // of the thread that writes
  int64_t snapshot_index_ = 0;  // of the thread that writes

  std::mutex mutex_;
  std::condition_variable changed_;
  Batch waiting_;                // guarded by mutex_
  bool is_writing_ = false;      // guarded by mutex_
  int num_calls_ = 0;            // guarded by mutex_
  std::optional<Error> broken_;  // guarded by mutex_; no command is taken any more
};

}  // namespace trireme
