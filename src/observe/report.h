#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Writes a report page about a run from the files in its directory: metrics.jsonl, summary.json or
// plan.json, ranks.json and the configuration. The page is one file, needs no network and has a
// light and a dark style.
Status write_report(const std::string& run_dir, const std::string& out_path);

// Writes a page that compares several runs: their curves in one chart, key numbers, and the keys in
// which their configurations differ.
Status write_comparison(const std::vector<std::string>& run_dirs, const std::string& out_path);

}  // namespace trireme
