#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "data/token_source.h"
#include "schema/run_config.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// The opened data of a configuration's [data] section.
struct SessionData {
  std::unique_ptr<TokenSource> train;
  std::unique_ptr<TokenSource> validation;  // absent: not configured
  std::unique_ptr<Tokenizer> tokenizer;     // absent: not configured
  std::string tokenizer_json;
  double bytes_per_token = 0.0;    // of the validation text; 0: unknown
  std::string identity;            // hash of the training tokens
  std::vector<std::string> notes;  // notes for the user about the files
};

// Vocabulary size of the configured token files. It is 0 for synthetic data, which take the model's
// vocabulary, and if no data are named but the model sets its own size, because a plan needs no
// data.
Result<int64_t> data_vocab_size(const RunConfig& config, const OpenInput& open_input = {});

// Opens the data; `open_input` opens token files that are not on this machine. It is an error if
// the token files were made by another tokenizer. `vocab_size` is the model's.
Result<SessionData> open_session_data(const RunConfig& config, int64_t vocab_size,
                                      const OpenInput& open_input = {});

}  // namespace trireme
