#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme checkpoint inspect|verify` after parsing.
struct CheckpointOptions {
  std::string path;  // a checkpoint, or a run directory (its newest checkpoint)
  bool json = false;
};

// Prints what a checkpoint contains: step, tensors, shapes, bytes.
Result<int> run_checkpoint_inspect(const CheckpointOptions& options, CommandIo& io);
// Reads every byte and checks every checksum.
Result<int> run_checkpoint_verify(const CheckpointOptions& options, CommandIo& io);

}  // namespace trireme
