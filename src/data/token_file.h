#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/input_file.h"
#include "base/result.h"

namespace trireme {

// The first 64 bytes of a token file (docs/formats/token_file.md), without its magic and the
// header's checksum.
struct TokenFileHeader {
  int token_bytes = 2;      // 2 when the vocabulary fits into 16 bits, else 4
  uint32_t vocab_size = 0;  // every token is below it
  int64_t num_tokens = 0;
  int64_t num_documents = 0;
  int64_t text_bytes = 0;       // of the text that was encoded: nats per token to bits per byte
  uint64_t tokenizer_hash = 0;  // Tokenizer::hash()
  uint64_t payload_hash = 0;    // XXH3-64 of the tokens
  // Version 2: a checksum of every chunk of tokens stands behind the tokens. Version 1 has none.
  bool has_chunk_checksums = true;

  int64_t payload_bytes() const { return num_tokens * token_bytes; }
  int64_t num_chunks() const;
  int64_t file_bytes() const;
};

inline constexpr int64_t kTokenFileHeaderBytes = 64;
inline constexpr int64_t kTokenChunkBytes = int64_t{64} << 10;  // the last chunk may be shorter
inline constexpr int64_t kTokensPerCopy = int64_t{1} << 20;     // where tokens go from file to file

// Bytes of a token that is below vocab_size.
int token_bytes_of(int64_t vocab_size);

// Checksum of a chunk. The chunk's number is its seed, so that a chunk in another's place is wrong.
uint64_t token_chunk_hash(int64_t chunk, std::span<const std::byte> tokens);

// A file of tokens, open for reading at any token.
class TokenFile {
 public:
  // Refuses a file whose header or length is wrong. A file below `verified_at_open` bytes is
  // verified as a whole; of a larger one, read() verifies every chunk that it reads for the first
  // time, if the file has chunk checksums.
  static Result<TokenFile> open(const std::string& path,
                                int64_t verified_at_open = kVerifiedAtOpen);
  static constexpr int64_t kVerifiedAtOpen = int64_t{64} << 20;

  const std::string& path() const { return file_.path(); }
  const TokenFileHeader& header() const { return header_; }
  int64_t num_tokens() const { return header_.num_tokens; }
  int64_t vocab_size() const { return header_.vocab_size; }

  // Copies tokens offset .. offset + out.size() - 1. Safe from several threads; no heap
  // allocation. Throws IoError for a chunk that does not match its checksum, for bytes that cannot
  // be read, and for a token outside the vocabulary.
  void read(int64_t offset, std::span<int32_t> out) const;

  // Reads the whole file and compares all checksums.
  Status verify() const;

 private:
  TokenFile(InputFile file, const TokenFileHeader& header);
  int64_t chunk_bytes(int64_t chunk) const;
  // Reads a chunk into `out` and compares it with its checksum, if it has one.
  Status read_chunk(int64_t chunk, std::span<std::byte> out) const;
  // Bytes begin .. begin + length - 1 of a chunk, which is verified if it was not yet. They lie in
  // `memory`, which holds a whole chunk.
  Result<const std::byte*> read_part(int64_t chunk, int64_t begin, int64_t length,
                                     std::span<std::byte> memory) const;
  bool is_verified(int64_t chunk) const;
  void set_verified(int64_t chunk) const;

  InputFile file_;
  TokenFileHeader header_;
  std::unique_ptr<std::atomic<uint64_t>[]> verified_;  // a bit per chunk; no memory in a step
};

// Checks magic, version, checksum and the fields' agreement with each other and with file_bytes.
Result<TokenFileHeader> parse_token_file_header(std::span<const std::byte> bytes,
                                                int64_t file_bytes);
void print_token_file_header(const TokenFileHeader& header,
                             std::span<std::byte, kTokenFileHeaderBytes> bytes);

}  // namespace trireme
