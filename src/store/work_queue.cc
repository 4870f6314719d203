#include "store/work_queue.h"

#include <utility>

namespace trireme {

WorkQueue::WorkQueue(int num_threads) {
  for (int thread = 0; thread < num_threads; ++thread) threads_.emplace_back([this] { work(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
  }
  has_news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::add(std::function<void()> piece) {
  {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
  }
  has_news_.notify_one();
}

void WorkQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    has_news_.wait(lock, [&] { return is_leaving_ || !pieces_.empty(); });
    if (pieces_.empty()) return;
    const std::function<void()> piece = std::move(pieces_.front());
    pieces_.pop_front();
    lock.unlock();
    piece();
    lock.lock();
  }
}

}  // namespace trireme
