#pragma once

#include <string>

#include "base/result.h"

namespace trireme {

// Writes report.html into a run directory from what lies there: metrics.jsonl, summary.json or
// plan.json, the trace and the configuration. One file, no network, light and dark.
Status write_report(const std::string& run_dir, const std::string& out_path);

}  // namespace trireme
