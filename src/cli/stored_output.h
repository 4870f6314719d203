#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

struct OutputRules {
  bool may_exist = false;  // files of the same names in the store are replaced
  bool resumes = false;    // the command resumes from what an interrupted one has written
};

// Runs a command that writes the file or folder `out`. If that is store://NAME/PATH, the command
// writes outputs/NAME/PATH of this machine instead (output_place.h; `out` is changed). Once it has
// succeeded, a store gets the result under PATH, with one commit for up to 4,096 files, and the
// local one is removed. What the command prints names the place in the store. If the store cannot
// be written, outputs/NAME/PATH stays, and so does what the same command resumes from.
Result<int> with_stored_output(std::string& out, OutputRules rules, CommandIo& io,
                               const std::function<Result<int>()>& run);

}  // namespace trireme
