#include "session/slow_note.h"

#include <chrono>
#include <utility>

namespace trireme {

SlowNote::SlowNote(double after_s, std::function<void()> tell) {
  if (after_s <= 0.0) {
    tell();
    return;
  }
  thread_ = std::thread([this, after_s, tell = std::move(tell)] {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return is_over_; };
    if (!changed_.wait_for(lock, std::chrono::duration<double>(after_s), is_over)) tell();
  });
}

SlowNote::~SlowNote() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace trireme
