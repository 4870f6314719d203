#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/progress.h"
#include "base/result.h"

namespace trireme {

// Runs one job at a time on a thread of its own, beside training. The first job starts the thread,
// which then waits for the next one, because making a thread takes longer than waking it. A job
// shows its calls on the Progress that it is given, not on that of its rank, because a rank shows
// one call at a time.
class BackgroundJob {
 public:
  using Function = std::function<Result<std::string>(Progress& progress)>;

  BackgroundJob() = default;
  ~BackgroundJob();  // waits for the job
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  // The result of the job before must have been taken. An exception becomes an error.
  void start(Function function);
  // Runs a job on the calling thread instead, which shows its calls on `progress`. An exception
  // leaves this call, and then no job was begun.
  void run_here(const Function& function, Progress& progress);
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // True if the job is done and its result is an error.
  bool has_failed() const { return is_done() && !result_->ok(); }
  // Waits for the job, if one was started. Shows its calls as those of the waiting rank, so the
  // watch of ranks sees whether it makes progress, and ends the run if it makes none.
  void wait(Progress& shown);
  // Waits for the job and returns its result.
  Result<std::string> take();

 private:
  void live();
  Result<std::string> run();

  Function function_;
  bool is_begun_ = false;  // a job was begun whose result was not taken
  bool is_leaving_ = false;
  Progress progress_{};
  std::optional<Result<std::string>> result_;
  std::atomic<bool> is_done_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;  // a job has ended
  std::condition_variable begun_;    // one has begun, or the thread has to end
  std::thread thread_;
};

// From now on the calling thread leaves most of the time of its cores to others.
void yield_cores_to_training();

}  // namespace trireme
