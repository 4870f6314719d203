#pragma once

#include <string>
#include <vector>

namespace trireme {

// What one rank has measured while all others measured the same.
struct PreflightRank {
  int rank = 0;
  std::string host;
  double flops_per_s = 0.0;         // fp32, of all threads of the rank together
  double memory_bytes_per_s = 0.0;  // read
  double disk_bytes_per_s = 0.0;    // written and synced
};

// The link between two ranks. If there are several hosts, both are the first ranks of their hosts.
struct PreflightLink {
  int a = 0, b = 0;  // ranks, a < b
  double bytes_per_s = 0.0;
  double latency_s = 0.0;
};

// A rank or a link that is much slower than the median of all ranks or links.
struct OddOne {
  std::string what;  // "compute", "memory", "disk" or "link"
  int rank = 0;
  int peer = -1;  // other end of a link that is slow though both ends are fast otherwise; -1: none
  std::string host;     // of `rank`
  double value = 0.0;   // FLOP/s for "compute", else bytes/s
  double median = 0.0;  // in the same unit
  double factor() const { return value > 0.0 ? median / value : 1e9; }
};

struct PreflightReport {
  std::vector<PreflightRank> ranks;
  std::vector<PreflightLink> links;
  double seconds = 0.0;
};

// A rank or link is odd if it is slower than the median by more than this factor. Disks differ more
// than the rest also on good hosts, so they have a larger factor.
inline constexpr double kOddFactor = 1.5;
inline constexpr double kOddDiskFactor = 3.0;

// Returns the ranks and links that are odd. The link of a rank is slow if the better half of its
// links is slow. With two ranks the median is the mean of both, so one of them is odd if it has
// less than half (disk: a fifth) of the speed of the other.
std::vector<OddOne> odd_ones(const PreflightReport& report);

// The report as JSON for programs; docs/operations.md lists the keys.
std::string preflight_json(const PreflightReport& report);
// Returns true if `json` comes from preflight_json() and nothing is odd in it.
bool is_good_preflight(const std::string& json);
// The report as a table for people.
std::string preflight_text(const PreflightReport& report);

}  // namespace trireme
