#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::api {

struct PrepareRequest {
  std::vector<std::string> texts;  // files and folders
  std::string tokenizer = "byte";  // a tokenizer file, or the word byte
  std::string out_dir;             // receives train.tok, val.tok and tokenizer.json
  double val_fraction = 0.05;      // fraction of the text for validation; 0: no val.tok
  int num_threads = 0;             // 0: all cores
};

struct PreparedData {
  std::int64_t vocab_size = 0;
  std::int64_t train_tokens = 0;
  std::int64_t val_tokens = 0;
};

// Turns text into token files. The memory that it needs does not grow with the text.
PreparedData prepare_data(const PrepareRequest& request);

}  // namespace trireme::api
