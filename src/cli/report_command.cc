#include "cli/report_command.h"

namespace trireme {

Result<int> run_report(const ReportOptions&, CommandIo&) {
  return Error{ErrorKind::Runtime, "not part of this build"};
}

}  // namespace trireme
