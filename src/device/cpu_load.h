#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Seconds of CPU time since the machine started, summed over the cores that this process may use.
struct CpuTimes {
  double idle_s = 0.0;
  double busy_s = 0.0;    // of all processes, this one included
  double stolen_s = 0.0;  // taken by the host of a virtual machine
  double own_s = 0.0;     // of this process
};

// Reads /proc/stat and the time of this process.
class CpuLoad {
 public:
  CpuLoad();  // takes the cores that the calling thread may use for those of the process
  // Nothing where the system does not tell.
  std::optional<CpuTimes> read() const;

 private:
  std::vector<bool> is_used_;  // [core]
};

// Adds up the lines "cpuN ..." of the text of /proc/stat for which `is_used(N)` is true.
std::optional<CpuTimes> cpu_times_of(const std::string& stat, double ticks_per_s,
                                     const std::function<bool(int core)>& is_used);

// Share of the cores that other processes and other virtual machines took between two readings,
// 0 to 1.
double share_of_others(const CpuTimes& before, const CpuTimes& after);

// The part of its time in which a team of `threads` could run if others take that share of `cores`.
double share_left(double others, int threads, int cores);

}  // namespace trireme
