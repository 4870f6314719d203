#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme generate` after parsing.
struct GenerateOptions {
  std::string checkpoint;  // a checkpoint, or a run directory (its newest checkpoint)
  std::string prompt;
  std::string prompt_file;  // "-": standard input
  int64_t num_tokens = 128;
  double temperature = 1.0;  // 0: always the most likely token
  int64_t top_k = 0;         // 0: all tokens
  double top_p = 1.0;
  uint64_t seed = 0;
  int threads = 0;  // 0: all cores
};

// Streams text to `out` and prints tokens per second to `err`.
Result<int> run_generate(const GenerateOptions& options, CommandIo& io);

}  // namespace trireme
