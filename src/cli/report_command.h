#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme report` after parsing.
struct ReportOptions {
  std::string run_dir;
  std::string out;  // "": report.html in the run directory
};

Result<int> run_report(const ReportOptions& options, CommandIo& io);

}  // namespace trireme
