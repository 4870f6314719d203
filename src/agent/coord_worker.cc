#include "agent/coord_worker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace trireme {

CoordWorker::CoordWorker(std::unique_ptr<Coord> coord, std::string fence_folder, double deadline_s)
    : coord_(std::move(coord)),
      fence_(std::move(fence_folder)),
      deadline_s_(deadline_s),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { work(); }) {}

CoordWorker::~CoordWorker() {
  {
    const std::lock_guard lock(mutex_);
    must_end_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(event_);
}

void CoordWorker::ask(int64_t id, CoordCall call) {
  add({.id = id, .call = std::move(call), .deadline = Deadline::after(deadline_s_)});
}

void CoordWorker::raise_fence(int64_t epoch) {
  add({.fenced_epoch = epoch, .call = {}, .deadline = Deadline::after(deadline_s_)});
}

void CoordWorker::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

Result<CoordReply> CoordWorker::make(const Job& job) {
  if (job.fenced_epoch > 0) {
    TRIREME_TRY_DONE(fence_.raise(job.fenced_epoch, job.deadline));
    return CoordReply{};
  }
  if (job.deadline.left_ms() == 0) {
    return Error{ErrorKind::Runtime, coord_->name() + " has not answered in time"};
  }
  return perform(*coord_, job.call, job.deadline);
}

void CoordWorker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return must_end_ || !jobs_.empty(); });
    if (must_end_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Result<CoordReply> result = make(job);
    lock.lock();
    answers_.push_back({job.id, job.fenced_epoch, std::move(job.call), std::move(result)});
    const uint64_t one = 1;
    if (::write(event_, &one, sizeof one) < 0) continue;  // it is readable already
  }
}

std::vector<CoordWorker::Answer> CoordWorker::take_answers() {
  uint64_t count = 0;
  if (::read(event_, &count, sizeof count) < 0) count = 0;
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace trireme
