#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "comm/tcp/rendezvous.h"

namespace trireme {

// Brings the ranks of one epoch together, on a thread of its own.
class Gathering {
 public:
  // The rendezvous must outlive this object.
  Gathering(Rendezvous& rendezvous, uint64_t epoch, int size, double timeout_s)
      : thread_([this, &rendezvous, epoch, size, timeout_s] {
          result_ = rendezvous.gather(epoch, size, Deadline::after(timeout_s), is_cancelled_);
          is_over_ = true;
        }) {}
  ~Gathering() {
    is_cancelled_ = true;
    thread_.join();
  }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  bool has_met() const { return is_over_ && result_.ok(); }
  bool has_failed() const { return is_over_ && !result_.ok(); }
  const Error& error() const { return result_.error(); }  // only after has_failed()

 private:
  std::atomic<bool> is_cancelled_{false};
  std::atomic<bool> is_over_{false};
  Status result_ = Done{};
  std::thread thread_;
};

}  // namespace trireme
