#include "store/maintainer_lease.h"

#include <chrono>
#include <utility>

namespace trireme {

MaintainerLease::MaintainerLease(Renew renew, End end)
    : renew_(std::move(renew)), end_(std::move(end)), thread_([this] { run(); }) {}

MaintainerLease::~MaintainerLease() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  has_news_.notify_all();
  thread_.join();
  end_();
}

void MaintainerLease::set(const UpkeepProgress& progress) {
  const std::lock_guard lock(mutex_);
  has_first_ = has_first_ || progress_.kind == UpkeepKind::None;
  progress_ = progress;
  if (has_first_) has_news_.notify_all();
}

void MaintainerLease::run() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> pause(kRenewalS);
  for (;;) {
    has_news_.wait_for(lock, pause, [&] { return is_over_ || has_first_; });
    if (is_over_) return;
    has_first_ = false;
    const UpkeepProgress progress = progress_;
    lock.unlock();
    renew_(progress);
    lock.lock();
  }
}

}  // namespace trireme
