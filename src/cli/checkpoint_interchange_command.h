#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme checkpoint import` after parsing.
struct CheckpointImportOptions {
  std::string path;  // a folder or file of another program
  std::string out;   // folder of the new checkpoint
  bool is_trainable = false;
  int threads = 0;            // 0: all cores
  std::string adapters = {};  // folder with adapters for the model; "": none
};

// Reads the model, writes it as a checkpoint, reads that back and compares weights and logits.
Result<int> run_checkpoint_import(const CheckpointImportOptions& options, CommandIo& io);

// `trireme checkpoint export` after parsing.
struct CheckpointExportOptions {
  std::string path;  // a checkpoint, or a run directory (its newest checkpoint)
  std::string format = "hf";
  std::string dtype = "fp32";
  std::string out;
  int threads = 0;
};

// Writes the model in another program's format, reads that back and compares weights and logits.
Result<int> run_checkpoint_export(const CheckpointExportOptions& options, CommandIo& io);

// `trireme checkpoint logits` after parsing.
struct CheckpointLogitsOptions {
  std::string path;    // a checkpoint, a run directory, or another program's model
  std::string tokens;  // numbers separated by spaces or commas
  int threads = 0;
};

// Prints the fp32 logits after each token, one line each, for comparison with other programs.
Result<int> run_checkpoint_logits(const CheckpointLogitsOptions& options, CommandIo& io);

}  // namespace trireme
