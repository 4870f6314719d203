#include "cli/calibrate_command.h"

namespace trireme {

Result<int> run_calibrate(const CalibrateOptions&, CommandIo&) {
  return Error{ErrorKind::Runtime, "not part of this build"};
}

}  // namespace trireme
