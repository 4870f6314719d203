#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "observe/failure_timeline.h"
#include "train/trace.h"

namespace trireme {

// Returns the time at which a trace begins, by the clock of this rank (monotonic_ns). This is the
// start of the first traced step or of the first survived failure. INT64_MAX if there is neither.
int64_t trace_begin_ns(const StepTrace& trace, std::span<const FailureTimeline> failures);

// Writes the steps that a rank has traced, and the failures that its job has survived. The file is
// for Chrome's tracing page or Perfetto. Times count from `origin_ns`, by the clock of this rank.
// If all ranks take the same moment as origin (earliest_ns() in host_clocks.h), their files can be
// loaded together. The process in each file has the number of the rank.
Status write_trace(const StepTrace& trace, std::span<const FailureTimeline> failures,
                   int64_t origin_ns, const std::string& path);

}  // namespace trireme
