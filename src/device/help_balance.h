#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

// Weighs what the workers of a team save their caller against how long it waits for them. Where
// other processes use the cores, a worker may lose its core in the middle of a tile. If the waits
// of 16 ms are more than two thirds of what was saved, the caller works alone for 16 ms and then
// tries again; each time after twice as long, up to half a second. Every 16 ms in which help has
// paid halve that time. Waits of less than 1 ms are no reason: a few calls may have waited for
// workers to wake up.
class HelpBalance {
 public:
  bool pays(int64_t now_ns) const { return now_ns >= alone_until_ns_; }

  // False after a time that was costly, until help has paid for long enough.
  bool is_trusted() const { return alone_ns_ == kPeriodNs; }

  // After a job: the time that the caller would have needed for the tiles of the workers, how long
  // it waited before and after its own tiles, and how long it worked on those.
  void note(int64_t saved_ns, int64_t waited_ns, int64_t worked_ns, int64_t now_ns) {
    saved_ns_ += saved_ns - worked_ns / kSharedPart;
    waited_ns_ += waited_ns;
    const bool is_costly = waited_ns_ > saved_ns_ + kMostDebtNs;
    if (now_ns < period_end_ns_ && !is_costly) return;
    if (waited_ns_ >= kLeastWaitNs && 3 * waited_ns_ > 2 * saved_ns_) {
      alone_until_ns_ = now_ns + alone_ns_;
      alone_ns_ = std::min(2 * alone_ns_, kLongestAloneNs);
    } else {
      alone_ns_ = std::max(alone_ns_ / 2, kPeriodNs);
    }
    period_end_ns_ = std::max(now_ns, alone_until_ns_) + kPeriodNs;
    saved_ns_ = waited_ns_ = 0;
  }

 private:
  // Tiles take longer beside those of others by about an eighth, because the caches of two cores
  // exchange what both use.
  static constexpr int64_t kSharedPart = 8;
  static constexpr int64_t kPeriodNs = 16'000'000;
  static constexpr int64_t kLongestAloneNs = 512'000'000;
  static constexpr int64_t kLeastWaitNs = 1'000'000;
  static constexpr int64_t kMostDebtNs = 2'000'000;

  int64_t saved_ns_ = 0, waited_ns_ = 0;  // of this period
  int64_t period_end_ns_ = 0;
  int64_t alone_until_ns_ = 0;
  int64_t alone_ns_ = kPeriodNs;
};

}  // namespace trireme
