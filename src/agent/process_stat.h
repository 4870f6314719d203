#pragma once

#include <cstdint>
#include <optional>

namespace trireme {

// The part of /proc/PID/stat that agents use.
struct ProcessStat {
  char state = '?';    // such as R (running), T (stopped) or Z (ended, but not waited for)
  int64_t cpu_ns = 0;  // CPU time of all its threads
  uint64_t start = 0;  // in clock ticks since the boot; differs from that of a later process

  bool is_stopped() const { return state == 'T'; }
};

// Returns nullopt if the process does not exist.
std::optional<ProcessStat> stat_of_process(int pid);

}  // namespace trireme
