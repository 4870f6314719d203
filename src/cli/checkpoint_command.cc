#include "cli/checkpoint_command.h"

namespace trireme {

Result<int> run_checkpoint_inspect(const CheckpointOptions&, CommandIo&) {
  return Error{ErrorKind::Runtime, "not part of this build"};
}

Result<int> run_checkpoint_verify(const CheckpointOptions&, CommandIo&) {
  return Error{ErrorKind::Runtime, "not part of this build"};
}

}  // namespace trireme
