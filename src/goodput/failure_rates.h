#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "failures/failure_class.h"

namespace trireme {

inline constexpr double kSecondsOfDay = 86400.0;

// What a failure takes away from the job. Process: nothing, the ranks start again where they were.
// Device and Host: one host, because a host with a lost device is replaced as a whole. Rack and
// Pod: all hosts behind one switch.
enum class FailureDomain : uint8_t { Process, Device, Host, Rack, Pod };
inline constexpr std::string_view kFailureDomainNames[] = {"process", "device", "host", "rack",
                                                           "pod"};
inline constexpr std::string_view name_of(FailureDomain domain) {
  return kFailureDomainNames[static_cast<uint8_t>(domain)];
}

struct FailureCause {
  std::string name;
  FailureClass failure_class = FailureClass::Unknown;
  FailureDomain domain = FailureDomain::Host;
  double per_host_day = 0.0;
  double per_day = 0.0;        // of the whole job, whatever its size
  double restart_s = 0.0;      // 0: that of the rates
  double printed_share = 0.0;  // of all failures, as the source prints it; 0: it prints none
};

// A mean time to failure that a source has published for jobs of this size.
struct PublishedMttf {
  int64_t devices = 0;
  double hours = 0.0;
};

// How often the parts of a cluster fail, and what a failure costs: a file of
// failures/ (docs/formats/rates.md).
struct FailureRates {
  std::string name;
  std::string source;
  int64_t devices_per_host = 8;
  int64_t hosts_per_rack = 2;
  int64_t hosts_per_pod = 384;
  double restart_s = 0.0;            // from a failure to the next step
  double repair_hours = 0.0;         // until a host that has failed can be used again
  double save_s = 0.0;               // of a checkpoint on disk; 0: its bytes / storage_bytes_per_s
  double storage_bytes_per_s = 0.0;  // of the whole job; 0: unknown
  // The largest part that may be lost without losing a checkpoint in memory.
  FailureDomain memory_survives = FailureDomain::Host;
  // This share of the hosts fails lemon_factor times as often as the others. The rates of the
  // causes are means over all hosts.
  double lemon_share = 0.0;
  double lemon_factor = 1.0;
  int64_t lemon_drain_after = 0;  // failures of one host until it is replaced for good; 0: never
  std::vector<FailureCause> causes;
  std::vector<PublishedMttf> published;  // by size

  int64_t hosts_of(int64_t devices) const;
};

// A cause of failures of a job of a certain size.
struct JobCause {
  std::string name;
  FailureClass failure_class = FailureClass::Unknown;
  FailureDomain domain = FailureDomain::Host;
  double per_day = 0.0;
  double restart_s = 0.0;
};

// The causes for a job of so many devices. If the source has published that jobs of up to this size
// fail more often than all causes together, the difference is one more cause: a job is never
// interrupted more rarely than a smaller one was measured to be.
std::vector<JobCause> causes_of_job(const FailureRates& rates, int64_t devices);

double failures_per_day(const std::vector<JobCause>& causes);

// Mean time to failure of a job, in seconds. Infinite if nothing fails.
double mttf_s(const FailureRates& rates, int64_t devices);

}  // namespace trireme
