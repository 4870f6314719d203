#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "watch/blame.h"
#include "watch/slow_ranks.h"

namespace trireme {

// A rank that holds up ranks of other hosts.
struct JobVerdict {
  int host = -1;
  int64_t process = 0;
  std::string why;  // a sentence about "it"
};

// Joins what the agents of all hosts see of their ranks. A chain of waits may lead over several
// hosts, and its last rank may be one for which nobody waits on its own host; only all hosts
// together know that it holds up the job. Likewise, a stage of the pipeline may have one rank on
// each host. It reads no clock, so tests can simulate any course of events.
class JobWatch {
 public:
  // Agents report so often if a rank is silent for longer than kSilentNs, and else every
  // kCalmReportNs.
  static constexpr int64_t kReportNs = 100'000'000;
  static constexpr int64_t kSilentNs = 300'000'000;
  static constexpr int64_t kCalmReportNs = 1'000'000'000;
  // An older report says nothing about waits: its agent may stand still.
  static constexpr int64_t kFreshNs = 500'000'000;
  // Reports of different hosts are of different moments. So a rank is blamed only if it was blamed
  // by so many reports of its host in a row, without a beat in between.
  static constexpr int kReports = 3;

  // The newest report of a host.
  void take(int host, int64_t now_ns, std::vector<WatchedProcess> ranks);
  // Forgets all reports, because the ranks have new places.
  void begin_epoch();
  std::optional<JobVerdict> look(int64_t now_ns);
  // The ranks of this job of `size` ranks that have become slow since the last call.
  std::vector<SlowRank> take_slow(int size);

 private:
  struct Report {
    int64_t number = 0;
    int64_t taken_ns = 0;
    std::vector<WatchedProcess> ranks;
  };
  struct Suspect {
    int64_t process = 0;  // 0: none
    uint64_t beats = 0;
    int64_t first_report = 0;
  };

  std::map<int, Report> reports_;  // by host
  SlowRanks slow_ranks_;
  Suspect suspect_;
  bool has_news_ = false;
};

}  // namespace trireme
