#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "watch/blame.h"
#include "watch/phase_budget.h"
#include "watch/slow_ranks.h"

namespace trireme {

// What is seen of one rank process at one moment.
struct ObservedRank {
  int64_t process = 0;  // number of the process in the job
  RankSample sample;
  bool is_stopped = false;   // by SIGSTOP
  bool is_runnable = true;   // it has a core or waits for one
  bool awaits_disk = false;  // it sleeps until a disk or a file server answers
  int64_t cpu_ns = 0;        // CPU time of the process
};

struct RankVerdict {
  int64_t process = 0;
  Blame blame;
  int64_t silent_ns = 0;
  int64_t budget_ns = 0;
};

// Decides from samples of the pages of a host which of its ranks hangs. It reads no clock and no
// file, so tests can simulate any course of events.
class Watchdog {
 public:
  // Between two looks at most this much counts as silence: if this process itself did not run, the
  // ranks may not have run either.
  static constexpr int64_t kMostGapNs = 50'000'000;
  // A rank that is runnable, but has got less than this share of one core, is not to blame yet.
  static constexpr double kLeastCpuShare = 0.5;
  static constexpr int64_t kStarvedFactor = 4;
  // Disks and file servers that stand still for some seconds are not rare.
  static constexpr int64_t kDiskFactor = 10;

  // Call it about every 10 ms with all ranks of this host that are alive. A rank is blamed if two
  // looks agree.
  std::optional<RankVerdict> look(int64_t now_ns, std::span<const ObservedRank> ranks);
  // What the last look has seen, for other hosts (JobWatch).
  const std::vector<WatchedProcess>& watched() const { return watched_; }
  // The ranks that have become slow since the last call.
  std::vector<SlowRank> take_slow() { return std::exchange(slow_, {}); }

 private:
  struct Seen {
    uint64_t beats = 0;
    uint64_t epoch = 0;
    int64_t steps = 0;
    int64_t silent_ns = 0;
    int64_t cpu_ns = 0;  // when it was silent for the first time
    PhaseBudget budget;
  };
  void update(Seen& seen, const ObservedRank& rank, int64_t gap_ns);
  WatchedRank watched(const Seen& seen, const ObservedRank& rank) const;

  std::map<int64_t, Seen> seen_;  // by process
  std::vector<WatchedProcess> watched_;
  SlowRanks slow_ranks_;
  std::vector<SlowRank> slow_;
  int64_t looked_ns_ = 0;
  int64_t suspect_ = 0;  // process that the last look has blamed; 0: none
};

}  // namespace trireme
