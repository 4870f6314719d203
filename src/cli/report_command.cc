#include "cli/report_command.h"

#include <ostream>

#include "base/file.h"
#include "observe/report.h"

namespace trireme {

Result<int> run_report(const ReportOptions& options, CommandIo& io) {
  if (!options.compare && options.run_dirs.size() > 1) {
    return Error{ErrorKind::Usage,
                 "trireme report takes one run; to compare several, use trireme report --compare "
                 "RUN RUN"};
  }
  if (options.compare && options.run_dirs.size() < 2) {
    return Error{ErrorKind::Usage,
                 "--compare needs at least two run directories: name another one"};
  }
  const char* name = options.compare ? "/comparison.html" : "/report.html";
  const std::string out = options.out.empty() ? options.run_dirs.front() + name : options.out;
  TRIREME_TRY_DONE(options.compare ? write_comparison(options.run_dirs, out)
                                   : write_report(options.run_dirs.front(), out));
  io.out << out << "\n";
  return 0;
}

}  // namespace trireme
