#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

// Says how the time of a team's caller went in one job.
struct JobTimes {
  int64_t worked_ns = 0;  // The caller worked on its own tiles for so long,
  int64_t saved_ns = 0;   // would have needed so much for the tiles of the workers,
  int64_t lost_ns = 0;    // and lost so much by waking workers before and waiting for them after.
};

// Weighs what the workers of a team save their caller against what it loses. Where other processes
// use the cores, a worker may lose its core in the middle of a tile. And tiles take longer where
// two cores use the same data: this is counted as an eighth of the caller's own work, an estimate
// (docs/performance.md, Busy machines). If in 16 ms the caller has lost more than two thirds of
// what was saved, it works alone for 16 ms and then tries again; each time after twice as long, up
// to half a second. Every 16 ms in which help has paid halve that time. Less than 1 ms is no
// reason: a few calls may have waited for workers to wake up.
class HelpBalance {
 public:
  bool pays(int64_t now_ns) const { return now_ns >= alone_until_ns_; }

  // False after a time that was costly, until help has paid for long enough.
  bool is_trusted() const { return alone_ns_ == kPeriodNs; }

  // Adds the times of a job that is over.
  void note(const JobTimes& job, int64_t now_ns) {
    saved_ns_ += job.saved_ns;
    lost_ns_ += job.lost_ns;
    shared_ns_ += job.worked_ns / kSharedPart;
    const int64_t gained_ns = saved_ns_ - shared_ns_;
    if (now_ns < period_end_ns_ && lost_ns_ <= gained_ns + kMostDebtNs) return;
    const bool pays = 3 * lost_ns_ <= 2 * gained_ns;
    if (!pays && std::max(lost_ns_, -gained_ns) >= kLeastLossNs) {
      alone_until_ns_ = now_ns + alone_ns_;
      alone_ns_ = std::min(2 * alone_ns_, kLongestAloneNs);
    } else if (pays) {
      alone_ns_ = std::max(alone_ns_ / 2, kPeriodNs);
    }
    period_end_ns_ = std::max(now_ns, alone_until_ns_) + kPeriodNs;
    saved_ns_ = lost_ns_ = shared_ns_ = 0;
  }

 private:
  static constexpr int64_t kSharedPart = 8;
  static constexpr int64_t kPeriodNs = 16'000'000;
  static constexpr int64_t kLongestAloneNs = 512'000'000;
  static constexpr int64_t kLeastLossNs = 1'000'000;
  static constexpr int64_t kMostDebtNs = 2'000'000;

  int64_t saved_ns_ = 0, lost_ns_ = 0, shared_ns_ = 0;  // of this period
  int64_t period_end_ns_ = 0;
  int64_t alone_until_ns_ = 0;
  int64_t alone_ns_ = kPeriodNs;
};

}  // namespace trireme
