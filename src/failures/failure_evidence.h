#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/corruption_alarm.h"

namespace trireme {

// What is known about a failure. Fields that nobody could observe keep their defaults, and no rule
// about them applies.
struct FailureEvidence {
  // How the agent has noticed it: killed, crashed, failed, hang, host or lost
  // (docs/formats/metrics.md).
  std::string kind;
  std::optional<int> exit_code;  // absent: the process has not ended by itself
  int signal = 0;                // that ended the process; 0: none

  std::string last_words;                 // the message of the rank
  std::vector<std::string> peers_words;   // of the ranks that waited for it
  std::vector<std::string> kernel_lines;  // of the kernel's log, since the last step

  // Counters that have grown since the last step.
  int64_t oom_kills = 0;        // of the memory cgroup, or of the host
  int64_t disk_errors = 0;      // failed reads and writes of the kernel
  int64_t network_errors = 0;   // of the adapters: errors, drops, lost carriers
  int64_t memory_errors = 0;    // of the host, that were not corrected (EDAC)
  int64_t device_errors = 0;    // of the device: lost, not corrected
  int64_t throttled_ms = 0;     // in which the processor or the device was slowed down
  int64_t nonfinite_steps = 0;  // in a row, up to the failure

  // What a check for silent corruption has found, if that has ended the rank.
  std::optional<CorruptionAlarm> corruption;

  std::optional<bool> was_first;  // false: another rank has failed before

  // Where the rank was, as its progress page says (docs/watchdog.md).
  std::string phase;        // "": unknown
  int64_t action = -1;      // of its program; -1: none
  std::string action_code;  // what the program calls it, and what that means; "": unknown
  // The samples on which it worked, by their global numbers; none between two steps.
  int64_t first_sample = 0;
  int64_t num_samples = 0;
  int64_t call = -1;     // collectives, sends and receives that it has made; -1: unknown
  std::string watchdog;  // why the agent has killed it; "": it has not
};

}  // namespace trireme
