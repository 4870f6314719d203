#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme tokenizer import` after parsing.
struct TokenizerImportOptions {
  std::string path;           // a file or folder of another program
  std::string pre_tokenizer;  // "": as in the file
  std::string end_of_text;    // "": the usual special tokens
  std::string out = "tokenizer.json";
};
Status run_tokenizer_import(const TokenizerImportOptions& options, std::ostream& out);

// `trireme tokenizer export` after parsing. It writes files as Hugging Face stores them.
struct TokenizerExportOptions {
  std::string tokenizer;
  std::string out;  // output folder
  int64_t seq_len = 1024;
};
Status run_tokenizer_export(const TokenizerExportOptions& options, CommandIo& io);

}  // namespace trireme
