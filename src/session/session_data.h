#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/token_source.h"
#include "spec/run_config.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// What a configuration's [data] section names, opened.
struct SessionData {
  std::unique_ptr<TokenSource> train;
  std::unique_ptr<TokenSource> validation;  // absent: none is configured
  std::unique_ptr<Tokenizer> tokenizer;     // absent: none is configured
  std::string tokenizer_json;
  double bytes_per_token = 0.0;    // of the validation text; 0: unknown
  std::string identity;            // hash of the training tokens
  std::vector<std::string> notes;  // what the user should know about the files
};

// Vocabulary of the configured token files; 0 for synthetic data, which takes the model's, and
// where no data are named but the model says its own: a plan needs no data.
Result<int64_t> data_vocab_size(const RunConfig& config);

// Refuses a tokenizer that did not make the token files. vocab_size is the model's.
Result<SessionData> open_session_data(const RunConfig& config, int64_t vocab_size);

}  // namespace trireme
