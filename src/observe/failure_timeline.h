#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/chrome_trace.h"

namespace trireme {

// The recovery from a failure that a run of `trireme launch` has survived. Several failures may
// come before a run trains again; they share one recovery.
struct FailureTimeline {
  struct Phase {
    std::string name;     // as in "ms" of the `restart` line: detect, classify, epoch, ...
    double end_ms = 0.0;  // from the detection; a phase begins where the one before it ends
  };
  std::string name;   // "failure 3: rank 1 (killed)"
  std::string cause;  // of the last of these failures
  int64_t epoch = 0;  // the new one
  int64_t redone_steps = 0;
  double detected_s = 0.0;  // Unix time
  double begin_ms = 0.0;    // of the last step before the failure, from the detection: 0 or less
  std::vector<Phase> phases;
};

// Reads what the last start of a run has survived from the text of its metrics.jsonl. Lines that no
// run writes are left out.
std::vector<FailureTimeline> failure_timelines(std::string_view metrics);

// Writes a process "job" with a box for every recovery, in which its phases lie. `origin_s` is the
// Unix time at which the trace begins.
void write_failures(ChromeTraceWriter& writer, std::span<const FailureTimeline> failures,
                    double origin_s);

}  // namespace trireme
