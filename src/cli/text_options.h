#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "data/text_reader.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Code shared by the text commands.

// The names are "auto", "text", "lines", "jsonl" and "chat".
Result<TextFormat> parse_text_format(std::string_view name);

// `name` is "byte", which needs no file, the path of a tokenizer.json, or a name of one that
// `open_input` opens, such as store://NAME/PATH.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& name,
                                                  const OpenInput& open_input);

// 0 means all cores.
int thread_count(int wanted);

// Prints the progress of reading text, at most once in two seconds.
class TextProgress {
 public:
  TextProgress(std::string what, std::ostream& err);
  void operator()(int64_t bytes, int64_t total_bytes);  // total_bytes -1: unknown

 private:
  std::string what_;
  std::ostream& err_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace trireme
