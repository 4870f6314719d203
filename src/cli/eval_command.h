#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme eval` after parsing.
struct EvalOptions {
  std::string model;                   // a checkpoint, a run directory, or RUN_DIR/best
  std::string data;                    // a text file, or a token file of `trireme data prepare`
  std::string format = "auto";         // of the text: a name of parse_text_format
  std::string field = "text";          // of a JSON line: the one with the document
  bool is_binary_read = false;         // --binary
  std::vector<std::string> overrides;  // --set SECTION.KEY=VALUE
  std::optional<int> ranks;            // --ranks; derives parallel.dp
  bool json = false;
};

// Evaluates a model on every token of a text but the first. Prints loss, bits per byte, perplexity
// and top-1 (docs/validation.md), and returns the exit code.
Result<int> run_eval(const EvalOptions& options, CommandIo& io);

}  // namespace trireme
