#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "data/token_file.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Token files of other programs (docs/formats/foreign_tokens.md).
enum class ForeignTokens {
  NanoGpt,  // u16 tokens and nothing else
  Llmc,     // a header of 1024 bytes, then u16 or u32 tokens
};

// Where the tokens of a file lie, and how wide they are.
struct ForeignTokenLayout {
  ForeignTokens format = ForeignTokens::NanoGpt;
  int token_bytes = 2;
  int64_t data_offset = 0;
  int64_t num_tokens = 0;
};

// `bytes` are the file's first ones, up to kForeignHeaderBytes. A file that begins with llm.c's
// magic is llm.c's; any other is nanoGPT's.
inline constexpr int64_t kForeignHeaderBytes = 1024;
Result<ForeignTokenLayout> parse_foreign_tokens(std::span<const std::byte> bytes,
                                                int64_t file_bytes);

// The layout of the file `path`.
Result<ForeignTokenLayout> read_foreign_layout(const std::string& path);

// What the tokens mean, which these files do not say.
struct TokenMeaning {
  int64_t vocab_size = 0;
  const Tokenizer* tokenizer = nullptr;  // null: text and documents are not counted
};

// Makes a token file and compares it with what was read.
Result<TokenFileHeader> import_tokens(const std::string& path, const TokenMeaning& meaning,
                                      const std::string& out);
// Refuses tokens that do not fit, and more of them than the format can count (Infeasible).
Status export_tokens(const TokenFile& file, ForeignTokens format, const std::string& out);

}  // namespace trireme
