#include "cli/report_command.h"

#include <ostream>

#include "train/report.h"

namespace trireme {

Result<int> run_report(const ReportOptions& options, CommandIo& io) {
  const std::string out = options.out.empty() ? options.run_dir + "/report.html" : options.out;
  TRIREME_TRY_DONE(write_report(options.run_dir, out));
  io.out << out << "\n";
  return 0;
}

}  // namespace trireme
