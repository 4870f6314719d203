#include "session/retention_thread.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "checkpoint/checkpoint_index.h"

namespace trireme {
namespace {

constexpr int kLowestPriority = 19;

std::string folder_names(const std::vector<int64_t>& steps) {
  std::string text;
  for (const int64_t step : steps) text += (text.empty() ? "" : ", ") + step_folder_name(step);
  return text;
}

// Says what the damage means for the other checkpoints.
std::string consequence(const RetentionResult& result) {
  std::string text = "it does not count towards checkpoint.keep";
  text += result.verified.empty()
              ? "; no intact checkpoint was found and none was removed"
              : "; read back, intact and kept: " + folder_names(result.verified);
  if (!result.removed.empty()) text += "; removed: " + folder_names(result.removed);
  return text;
}

}  // namespace

RetentionThread::RetentionThread(const RetentionOptions& options,
                                 std::vector<RunObserver*> listeners)
    : options_(options), listeners_(std::move(listeners)), thread_([this] { run(); }) {}

RetentionThread::~RetentionThread() {
  should_stop_ = true;
  {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  thread_.join();
}

void RetentionThread::on_checkpoint(const CheckpointReport& report) {
  // Keeps the folder open from now on, so that nothing is removed in a folder that replaces it.
  auto root = HeldFolder::open(std::filesystem::path(report.path).parent_path().string());
  if (!root.ok()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !next_; });
  next_.emplace(Job{std::move(*root), report.step});
  changed_.notify_all();
}

void RetentionThread::on_step(const StepReport&) {
  if (has_messages_.load(std::memory_order_relaxed)) tell();
}

void RetentionThread::finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !next_ && !is_busy_; });
  }
  tell();
}

void RetentionThread::run() {
  ::setpriority(PRIO_PROCESS, id_t(::gettid()), kLowestPriority);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return next_ || should_stop_; });
    if (should_stop_) return;
    const Job job = std::move(*next_);
    next_.reset();
    is_busy_ = true;
    changed_.notify_all();
    lock.unlock();
    RetentionResult result;
    std::string failure;
    try {
      result = apply_retention(job.root.inside(), job.step, options_,
                               [this] { return should_stop_.load(); });
    } catch (const std::exception& error) {
      failure = fmt::format("{}: step {} was not read back: {}; no checkpoint was removed",
                            job.root.path(), job.step, error.what());
    }
    lock.lock();
    if (!failure.empty()) messages_.push_back(failure);
    note(job.root, result);
    is_busy_ = false;
    changed_.notify_all();
  }
}

void RetentionThread::note(const HeldFolder& root, const RetentionResult& result) {
  for (const DamagedCheckpoint& damaged : result.damaged) {
    const std::string path = root.path() + "/" + step_folder_name(damaged.step);
    if (!reported_.insert(path).second) continue;
    // The thread reads the folder under another name, so the name in the message is replaced.
    std::string problem = damaged.problem;
    if (const size_t at = problem.find(root.inside()); at != std::string::npos) {
      problem.replace(at, root.inside().size(), root.path());
    }
    messages_.push_back(fmt::format("{} is damaged: {}; {}", path, problem, consequence(result)));
  }
  has_messages_ = !messages_.empty();
}

void RetentionThread::tell() {
  std::vector<std::string> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(messages_);
    has_messages_ = false;
  }
  for (const std::string& message : messages) {
    for (RunObserver* listener : listeners_) listener->on_message(message);
  }
}

}  // namespace trireme
