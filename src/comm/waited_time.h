#pragma once

#include <cstdint>

namespace trireme {

// Measures how long a thread has waited. A gap between two polls in which the thread itself was
// stopped (by a signal, a debugger or the host) does not count, because its peers may have been
// stopped too.
class WaitedTime {
 public:
  explicit WaitedTime(int64_t now_ns) : since_ns_(now_ns), looked_ns_(now_ns) {}

  void look(int64_t now_ns) {
    const int64_t gap_ns = now_ns - looked_ns_;
    if (gap_ns > kStoppedNs) stopped_ns_ += gap_ns;
    looked_ns_ = now_ns;
  }
  // Restarts the count at the last poll.
  void restart() {
    since_ns_ = looked_ns_;
    stopped_ns_ = 0;
  }
  int64_t since_ns() const { return since_ns_; }
  int64_t ns() const { return looked_ns_ - since_ns_ - stopped_ns_; }

 private:
  // A waiting thread polls every few milliseconds.
  static constexpr int64_t kStoppedNs = 500'000'000;

  int64_t since_ns_;
  int64_t looked_ns_;
  int64_t stopped_ns_ = 0;
};

}  // namespace trireme
