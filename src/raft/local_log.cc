#include "raft/local_log.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/failure.h"

namespace trireme {
namespace {

constexpr int64_t kTerm = 1;
// A frame is kept in memory while it is written, so it takes no more commands than this.
constexpr int64_t kMostBatchBytes = int64_t{64} << 20;

std::chrono::steady_clock::time_point time_of(Deadline deadline) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.at_ns));
}

}  // namespace

Result<std::unique_ptr<LocalLog>> LocalLog::open(const std::string& folder, StateMachine& machine,
                                                 int64_t entries_per_snapshot) {
  LogContents contents;
  TRIREME_TRY(file, LogFile::open(folder, contents));
  std::unique_ptr<LocalLog> log(new LocalLog(std::move(file), machine, entries_per_snapshot));
  const Status status = log->restore(std::move(contents));
  if (!status) return with_context(status.error(), folder);
  return log;
}

Status LocalLog::restore(LogContents contents) {
  if (contents.vote.term != 0) {
    return usage("this folder belongs to a server of a replicated log; start it as one of them");
  }
  if (contents.snapshot.index > 0) {
    TRIREME_TRY_DONE(machine_.restore(contents.snapshot.state));
  }
  last_index_ = snapshot_index_ = contents.snapshot.index;
  for (const LogEntry& entry : contents.entries) {
    machine_.apply(entry.bytes);
    last_index_ = entry.index;
  }
  return Done{};
}

LocalLog::~LocalLog() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_calls_ == 0; });
}

Result<AppliedAnswer> LocalLog::apply(const std::string& command, Deadline deadline) {
  if (int64_t(command.size()) > kMostCommandBytes) {
    return usage("a command has " + std::to_string(command.size()) +
                 " bytes; the log takes up to " + std::to_string(kMostCommandBytes));
  }
  const auto call = std::make_shared<Call>(Call{command, {}});
  std::unique_lock lock(mutex_);
  if (broken_) return *broken_;
  waiting_.push_back(call);
  ++num_calls_;
  // The first thread that finds nobody writing writes for all that wait, once.
  while (!call->answer && (is_writing_ || !waiting_.empty())) {
    if (is_writing_) {
      if (changed_.wait_until(lock, time_of(deadline)) == std::cv_status::timeout) break;
      continue;
    }
    is_writing_ = true;
    Batch batch;
    int64_t batch_bytes = 0;
    size_t taken = 0;
    while (taken < waiting_.size() && batch_bytes < kMostBatchBytes) {
      batch_bytes += int64_t(waiting_[taken]->command.size());
      batch.push_back(std::move(waiting_[taken++]));
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + int64_t(taken));
    lock.unlock();
    do_batch(batch);
    lock.lock();
    is_writing_ = false;
    changed_.notify_all();
  }
  --num_calls_;
  if (num_calls_ == 0) changed_.notify_all();
  if (!call->answer) {
    // Nobody takes the command any more if it still waits; otherwise another thread writes it now.
    std::erase(waiting_, call);
    return Error{ErrorKind::Runtime,
                 "the log did not write a command before its deadline; it may still take effect"};
  }
  if (!*call->answer) return call->answer->error();
  return AppliedAnswer{.is_leader = true, .leader = "", .bytes = std::move(**call->answer)};
}

// Runs without mutex_. The answers are set under it, because threads that wait read them.
void LocalLog::do_batch(const Batch& batch) {
  Status status = Done{};
  std::vector<std::string> answers;
  try {
    status = write(batch);
    if (status) {
      const std::unique_lock machine_lock(machine_mutex_);
      for (const auto& call : batch) answers.push_back(machine_.apply(call->command));
    }
    if (status) status = save_snapshot_if_due();
  } catch (const std::exception& exception) {
    status = error_of(exception);
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (i < answers.size()) {
      batch[i]->answer = Result<std::string>(std::move(answers[i]));
    } else {
      batch[i]->answer = Result<std::string>(status.error());
    }
  }
  if (status) return;
  // The state in memory may differ from the disk now.
  broken_ = with_context(status.error(), "the log has stopped");
  for (const auto& call : waiting_) call->answer = Result<std::string>(*broken_);
  waiting_.clear();
}

Status LocalLog::write(const Batch& batch) {
  std::vector<LogEntry> entries;
  for (const auto& call : batch) {
    entries.push_back({.index = ++last_index_,
                       .term = kTerm,
                       .kind = EntryKind::Command,
                       .bytes = call->command});
  }
  return file_.append({}, entries);
}

Status LocalLog::save_snapshot_if_due() {
  const bool is_due = last_index_ - snapshot_index_ >= entries_per_snapshot_ ||
                      file_.segment_bytes() >= kBytesPerSnapshot;
  if (!is_due) return Done{};
  LogSnapshot snapshot{.index = last_index_, .term = kTerm, .members = "", .state = ""};
  {
    const std::shared_lock machine_lock(machine_mutex_);
    snapshot.state = machine_.snapshot();
  }
  TRIREME_TRY_DONE(file_.save_snapshot(snapshot, {}, {}));
  snapshot_index_ = last_index_;
  return Done{};
}

Result<AppliedAnswer> LocalLog::query(const std::string& question, Deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return *broken_;
  }
  const std::shared_lock machine_lock(machine_mutex_);
  return AppliedAnswer{.is_leader = true, .leader = "", .bytes = machine_.query(question)};
}

}  // namespace trireme
