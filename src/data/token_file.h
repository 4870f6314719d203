#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace trireme {

// The first 64 bytes of a token file (docs/formats/token_file.md), without its magic and checksums.
struct TokenFileHeader {
  int token_bytes = 2;      // 2 when the vocabulary fits into 16 bits, else 4
  uint32_t vocab_size = 0;  // every token is below it
  int64_t num_tokens = 0;
  int64_t num_documents = 0;
  int64_t text_bytes = 0;       // of the text that was encoded: nats per token to bits per byte
  uint64_t tokenizer_hash = 0;  // Tokenizer::hash()
  uint64_t payload_hash = 0;    // XXH3-64 of the tokens
};

inline constexpr int64_t kTokenFileHeaderBytes = 64;
inline constexpr int64_t kTokensPerCopy = int64_t{1} << 20;  // where tokens go from file to file

// Bytes of a token that is below vocab_size.
int token_bytes_of(int64_t vocab_size);

// A file of tokens, mapped: opening costs no reading, and pages are shared by the ranks of a host.
class TokenFile {
 public:
  // Refuses a file whose header or length is wrong. The tokens' checksum is compared as well for
  // files below kVerifiedAtOpen bytes; verify() does it for larger ones.
  static Result<TokenFile> open(const std::string& path);
  static constexpr int64_t kVerifiedAtOpen = int64_t{64} << 20;

  const std::string& path() const { return path_; }
  const TokenFileHeader& header() const { return header_; }
  int64_t num_tokens() const { return header_.num_tokens; }
  int64_t vocab_size() const { return header_.vocab_size; }

  // Copies tokens offset .. offset + out.size() - 1. Safe from several threads; no heap
  // allocation. Throws IoError for a token outside the vocabulary.
  void read(int64_t offset, std::span<int32_t> out) const;

  Status verify() const;

 private:
  TokenFile(std::string path, const TokenFileHeader& header, MappedFile map);

  std::string path_;
  TokenFileHeader header_;
  MappedFile map_;
};

// Checks magic, version, checksum and the fields' agreement with each other and with file_bytes.
Result<TokenFileHeader> parse_token_file_header(std::span<const std::byte> bytes,
                                                int64_t file_bytes);
void print_token_file_header(const TokenFileHeader& header,
                             std::span<std::byte, kTokenFileHeaderBytes> bytes);

}  // namespace trireme
