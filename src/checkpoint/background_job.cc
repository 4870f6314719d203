#include "checkpoint/background_job.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

// How often a waiting rank looks at the progress of the job.
constexpr auto kLookEvery = std::chrono::milliseconds(50);
// About a tenth of the weight of a thread that trains. A lower priority would starve the job on a
// machine that others use, too.
constexpr int kPriorityBesideTraining = 10;

}  // namespace

void BackgroundJob::join() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundJob::start(Function function) {
  TRIREME_CHECK(!thread_.joinable(), "a job is started before the result of the last is taken");
  function_ = std::move(function);
  result_.reset();
  is_done_ = false;
  thread_ = std::thread([this] { run(); });
}

void BackgroundJob::run_here(const Function& function, Progress& progress) {
  TRIREME_CHECK(!thread_.joinable(), "a job is run before the result of the last is taken");
  result_ = function(progress);
  is_done_ = true;
}

void BackgroundJob::run() {
  Result<std::string> result = std::string();
  try {
    result = function_(progress_);
  } catch (const std::exception& error) {
    result = damaged(error.what());
  }
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  is_done_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void BackgroundJob::wait(Progress& shown) {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  uint64_t seen = 0;
  bool is_shown = false;
  while (!changed_.wait_for(lock, kLookEvery, [this] { return is_done(); })) {
    const uint64_t count = progress_.count();
    const std::optional<ProgressCall> call = progress_.current();
    if (is_shown && count == seen) continue;
    seen = count;
    is_shown = true;
    shown.begin(call ? call->call : "saving", call ? call->subject : "the checkpoint");
  }
  if (is_shown) shown.end();
}

Result<std::string> BackgroundJob::take() {
  join();
  return *std::exchange(result_, std::nullopt);
}

void yield_cores_to_training() {
  ::setpriority(PRIO_PROCESS, id_t(::gettid()), kPriorityBesideTraining);
}

}  // namespace trireme
