#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Counters of this host since it was started. A counter that the host does not have is 0.
struct HostCounters {
  int64_t oom_kills = 0;    // of the memory cgroup of this process if it counts, else of the host
  int64_t disk_errors = 0;  // failed commands of disks, errors of file systems
  int64_t network_errors = 0;  // errors, drops and lost carriers of all adapters but loopback
  int64_t memory_errors = 0;   // not corrected (EDAC)
  int64_t throttled_ms = 0;    // of the cores by heat, and of the cgroup by its limit of CPU time
  int64_t device_errors = 0;   // uncorrected_errors(); read_host_counters() leaves it 0
  // For statistics.
  double cpu_s = 0.0;     // of all cores: busy, idle and stolen
  double stolen_s = 0.0;  // taken by the host of a virtual machine
  int64_t major_faults = 0;
  int64_t disk_ios = 0;  // reads and writes that are complete
  int64_t disk_ms = 0;   // that these have taken, added up
  // As they are now.
  double runnable = 0.0;         // threads that run or wait for a core
  double memory_pressure = 0.0;  // share of the last 10 s in which some thread waited for memory
  int64_t available_memory_bytes = 0;
  double taken_s = 0.0;  // monotonic seconds
};

HostCounters read_host_counters();

// Statistics of the time between two readings.
struct HostStatistics {
  double stolen = 0.0;           // share of the time of all cores
  double runnable = 0.0;         // threads that run or wait for a core
  double faults_per_s = 0.0;     // major page faults
  double memory_pressure = 0.0;  // share of the time
  double disk_ms = 0.0;          // mean time of a read or a write; 0: there was none
  int64_t network_errors = 0;    // since the earlier reading
  int64_t throttled_ms = 0;
};
HostStatistics between(const HostCounters& before, const HostCounters& after);

// Parts of read_host_counters(), for texts of /proc.
int64_t network_errors_in(std::string_view net_dev);
int64_t number_after(std::string_view text, std::string_view key);  // 0: there is none
double some_pressure_in(std::string_view pressure);                 // avg10 of "some", as a share

// The log of the kernel from now on, as far as this process may read it.
class KernelLog {
 public:
  KernelLog();
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;
  bool is_readable() const { return fd_ >= 0; }
  // The lines since the last call, without their heads; of very many only the last ones.
  std::vector<std::string> take();

 private:
  int fd_ = -1;
};

}  // namespace trireme
