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

BackgroundJob::~BackgroundJob() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
    begun_.notify_one();
  }
  thread_.join();
}

void BackgroundJob::start(Function function) {
  TRIREME_CHECK(!is_begun_, "a job is started before the result of the last is taken");
  if (!thread_.joinable()) thread_ = std::thread([this] { live(); });
  is_begun_ = true;
  is_done_ = false;
  {
    const std::lock_guard lock(mutex_);
    function_ = std::move(function);
  }
  begun_.notify_one();
}

void BackgroundJob::run_here(const Function& function, Progress& progress) {
  TRIREME_CHECK(!is_begun_, "a job is run before the result of the last is taken");
  result_ = function(progress);
  is_begun_ = true;
  is_done_ = true;
}

Result<std::string> BackgroundJob::run() {
  try {
    return function_(progress_);
  } catch (const std::exception& error) {
    return damaged(error.what());
  }
}

void BackgroundJob::live() {
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [this] { return is_leaving_ || function_ != nullptr; });
    if (function_ == nullptr) return;
    lock.unlock();
    Result<std::string> result = run();
    lock.lock();
    function_ = nullptr;
    result_ = std::move(result);
    is_done_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
}

void BackgroundJob::wait(Progress& shown) {
  if (!is_begun_ || is_done()) return;
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
  TRIREME_CHECK(is_begun_, "the result of a job is taken that was not begun");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_done(); });
  is_begun_ = false;
  return *std::exchange(result_, std::nullopt);
}

void yield_cores_to_training() {
  ::setpriority(PRIO_PROCESS, id_t(::gettid()), kPriorityBesideTraining);
}

}  // namespace trireme
