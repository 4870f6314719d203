#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "data/token_file.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Formats of token files of other programs (docs/formats/foreign_tokens.md).
enum class ForeignTokens {
  NanoGpt,  // only u16 tokens
  Llmc,     // a header of 1024 bytes, then u16 or u32 tokens
};

// Position and width of the tokens in a file.
struct ForeignTokenLayout {
  ForeignTokens format = ForeignTokens::NanoGpt;
  int token_bytes = 2;
  int64_t data_offset = 0;
  int64_t num_tokens = 0;
};

// `bytes` are the first bytes of the file, up to kForeignHeaderBytes. A file that begins with
// llm.c's magic is llm.c's; any other file is nanoGPT's.
inline constexpr int64_t kForeignHeaderBytes = 1024;
Result<ForeignTokenLayout> parse_foreign_tokens(std::span<const std::byte> bytes,
                                                int64_t file_bytes);

// Reads the layout of the file `path`, which may be a name that only `open_input` understands.
Result<ForeignTokenLayout> read_foreign_layout(const std::string& path,
                                               const OpenInput& open_input = {});

// The meaning of the tokens, which these files do not contain.
struct TokenMeaning {
  int64_t vocab_size = 0;
  const Tokenizer* tokenizer = nullptr;  // null: text bytes and documents are not counted
};

// Makes a token file and compares it with the original.
Result<TokenFileHeader> import_tokens(const std::string& path, const TokenMeaning& meaning,
                                      const std::string& out, const OpenInput& open_input = {});
// Infeasible if a token does not fit the format, or there are more tokens than it can count.
Status export_tokens(const TokenFile& file, ForeignTokens format, const std::string& out);

}  // namespace trireme
