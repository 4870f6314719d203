#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "observe/failure_timeline.h"
#include "train/trace.h"

namespace trireme {

// Writes the steps that a rank has traced, and the failures that its job has survived, as a file
// for Chrome's tracing page or Perfetto. The trace begins with whichever came first.
Status write_trace(const StepTrace& trace, std::span<const FailureTimeline> failures,
                   const std::string& path);

}  // namespace trireme
