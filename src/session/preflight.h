#pragma once

#include "base/result.h"
#include "session/preflight_report.h"
#include "session/session.h"

namespace trireme {

// Measures compute, memory, disk and links of all ranks at the same time, for a few seconds, before
// a run begins (docs/operations.md). The disk is that of out_dir. Only the process of rank 0 gets
// the report; the others get an empty one. An error if a rank or a link fails.
Result<PreflightReport> run_preflight(const SessionOptions& options);

}  // namespace trireme
