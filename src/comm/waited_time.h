#pragma once

#include <cstdint>

namespace trireme {

// How long a thread has waited, as it saw it: a gap between two looks in which it was stopped (by a
// signal, a debugger, the host) does not count, for those that it waits for may have been, too.
class WaitedTime {
 public:
  explicit WaitedTime(int64_t now_ns) : since_ns_(now_ns), looked_ns_(now_ns) {}

  void look(int64_t now_ns) {
    const int64_t gap_ns = now_ns - looked_ns_;
    if (gap_ns > kStoppedNs) stopped_ns_ += gap_ns;
    looked_ns_ = now_ns;
  }
  // Counts from the last look on.
  void restart() {
    since_ns_ = looked_ns_;
    stopped_ns_ = 0;
  }
  int64_t since_ns() const { return since_ns_; }
  int64_t ns() const { return looked_ns_ - since_ns_ - stopped_ns_; }

 private:
  static constexpr int64_t kStoppedNs = 500'000'000;  // who waits looks every few milliseconds

  int64_t since_ns_;
  int64_t looked_ns_;
  int64_t stopped_ns_ = 0;
};

}  // namespace trireme
