#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Writes a page about a run from what lies in its directory: metrics.jsonl, summary.json or
// plan.json, ranks.json and the configuration. One file, no network, light and dark.
Status write_report(const std::string& run_dir, const std::string& out_path);

// The same of several runs: curves over each other, key numbers, and the keys in which their
// configurations differ.
Status write_comparison(const std::vector<std::string>& run_dirs, const std::string& out_path);

}  // namespace trireme
