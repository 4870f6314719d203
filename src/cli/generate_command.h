#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme generate` after parsing.
struct GenerateOptions {
  std::string model;       // the path of the model as an argument; see open_model()
  std::string checkpoint;  // the same path as the option --checkpoint
  std::string precision;   // a value of precision.compute; "": the dtype of the model
  std::string tokenizer;   // as open_tokenizer() names it; "": that of the model
  std::string prompt;
  std::string prompt_file;      // "-": standard input
  std::string prompts_file;     // several prompts, one on each line; "-": standard input
  bool is_binary_read = false;  // a prompt that is not text is read as bytes instead of refused
  int64_t num_tokens = 128;
  double temperature = 1.0;  // 0: always the most likely token
  int64_t top_k = 0;         // 0: all tokens
  double top_p = 1.0;
  double repeat_penalty = 1.0;     // see SamplingOptions
  std::vector<std::string> stops;  // the output ends before the first of these texts
  uint64_t seed = 0;               // of the first prompt; the next one has seed + 1
  int threads = 0;                 // 0: all cores
  std::string speed_file;          // where the measured times are written as JSON; "": nowhere
};

// Streams text to `out`. Prints to `err` how fast the prompt was read and how fast the tokens after
// the first one came, and what the context of the model cannot hold.
Result<int> run_generate(const GenerateOptions& options, CommandIo& io);

}  // namespace trireme
