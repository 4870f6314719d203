#pragma once

#include <string>

#include "base/result.h"
#include "train/trace.h"

namespace trireme {

// Writes the steps that a rank has traced as a file for Chrome's tracing page or Perfetto.
Status write_trace(const StepTrace& trace, const std::string& path);

}  // namespace trireme
