#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme report` after parsing.
struct ReportOptions {
  std::vector<std::string> run_dirs;
  bool compare = false;
  std::string out;  // "": report.html in the run directory, or comparison.html in the first one
};

Result<int> run_report(const ReportOptions& options, CommandIo& io);

}  // namespace trireme
