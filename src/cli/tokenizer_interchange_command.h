#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"

namespace trireme {

// `trireme tokenizer import` after parsing.
struct TokenizerImportOptions {
  std::string path;           // a file or folder of another program
  std::string pre_tokenizer;  // "": as the file says
  std::string end_of_text;    // "": the usual special tokens
  std::string out = "tokenizer.json";
};
Status run_tokenizer_import(const TokenizerImportOptions& options, std::ostream& out);

// `trireme tokenizer export` after parsing: files as Hugging Face keeps them.
struct TokenizerExportOptions {
  std::string tokenizer;
  std::string out;  // a folder
  int64_t seq_len = 1024;
};
Status run_tokenizer_export(const TokenizerExportOptions& options, std::ostream& out);

}  // namespace trireme
