#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

enum class OutputRule {
  MustBeNew,  // no file may have the name, nor be in a folder of this name
  MayExist,   // files of the same names are replaced
};

// Runs a command that writes the file or folder `out`. If that is store://NAME/PATH, the command
// writes outputs/NAME/PATH of this machine instead (`out` is changed). Once it has succeeded, a
// store gets the result under PATH, with one commit for up to 4,096 files, and the local one is
// removed. What the command prints names the place in the store. If the command is interrupted or
// the store cannot be written, outputs/NAME/PATH stays, so the same command resumes where it can.
Result<int> with_stored_output(std::string& out, OutputRule rule, CommandIo& io,
                               const std::function<Result<int>()>& run);

}  // namespace trireme
