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

// The header of a token file, its first 64 bytes (docs/formats/token_file.md), without the magic
// and the header's checksum.
struct TokenFileHeader {
  int token_bytes = 2;      // 2 if the vocabulary fits into 16 bits, else 4
  uint32_t vocab_size = 0;  // every token is below it
  int64_t num_tokens = 0;
  int64_t num_documents = 0;
  int64_t text_bytes = 0;       // of the encoded text; converts nats per token to bits per byte
  uint64_t tokenizer_hash = 0;  // Tokenizer::hash()
  uint64_t payload_hash = 0;    // XXH3-64 of the tokens
  // Version 2 stores a checksum of every chunk of tokens after the tokens. Version 1 has none.
  bool has_chunk_checksums = true;
  // Version 3: the highest bit of a token is 1 if the loss leaves the token out. Such a file always
  // has chunk checksums.
  bool has_loss_mask = false;

  int64_t payload_bytes() const { return num_tokens * token_bytes; }
  int64_t num_chunks() const;
  int64_t file_bytes() const;
};

inline constexpr int64_t kTokenFileHeaderBytes = 64;
inline constexpr int64_t kTokenChunkBytes = int64_t{64} << 10;  // the last chunk may be shorter
// Block size for copying tokens between files.
inline constexpr int64_t kTokensPerCopy = int64_t{1} << 20;

// Returns the bytes of a stored token, 2 or 4, for tokens below vocab_size.
int token_bytes_of(int64_t vocab_size, bool has_loss_mask = false);

// A token that the loss leaves out is kept as its complement, which is negative, until it is
// written to a token file. token_of() returns the token itself in both cases.
constexpr int32_t uncounted(int32_t token) { return ~token; }
constexpr bool is_counted(int32_t token) { return token >= 0; }
constexpr int32_t token_of(int32_t token) { return token < 0 ? ~token : token; }

// Returns the checksum of a chunk. Its seed is the number of the chunk, so a chunk in a wrong place
// does not match.
uint64_t token_chunk_hash(int64_t chunk, std::span<const std::byte> tokens);

// An open token file, which can be read at any token.
class TokenFile {
 public:
  // An error if the header or the length is wrong. A file below `verified_at_open` bytes is
  // verified completely. For a larger file read() verifies every chunk when it is read for the
  // first time, if the file has chunk checksums.
  static Result<TokenFile> open(const std::string& path,
                                int64_t verified_at_open = kVerifiedAtOpen);
  // The same for a file that is open already.
  static Result<TokenFile> open(InputFile input, int64_t verified_at_open = kVerifiedAtOpen);
  // Opens a path of this machine, or a name such as store://NAME/PATH, which only `open_input`
  // understands. Empty: there are no such names.
  static Result<TokenFile> open_named(const std::string& name, const OpenInput& open_input,
                                      int64_t verified_at_open = kVerifiedAtOpen);
  static constexpr int64_t kVerifiedAtOpen = int64_t{64} << 20;

  const std::string& path() const { return file_.path(); }
  const TokenFileHeader& header() const { return header_; }
  int64_t num_tokens() const { return header_.num_tokens; }
  int64_t vocab_size() const { return header_.vocab_size; }

  // Copies tokens offset .. offset + out.size() - 1. Several threads may call it, and it allocates
  // no heap memory. Throws IoError if a chunk does not match its checksum, bytes cannot be read, or
  // a token is outside the vocabulary.
  void read(int64_t offset, std::span<int32_t> out) const;
  // As read(), but writes kUncountedTarget for a token that the loss leaves out. (read() writes the
  // token itself.)
  void read_targets(int64_t offset, std::span<int32_t> out) const;

  // True if the file is not on this machine.
  bool is_elsewhere() const { return file_.is_elsewhere(); }
  // Reads these tokens ahead, if the file is not on this machine.
  void will_read(int64_t offset, int64_t count) const;

  // Reads the whole file and checks all checksums.
  Status verify() const;

 private:
  TokenFile(InputFile file, const TokenFileHeader& header);
  template <typename Convert>
  void read_with(int64_t offset, std::span<int32_t> out, Convert&& convert) const;
  int64_t chunk_bytes(int64_t chunk) const;
  // Reads a chunk into `out` and checks its checksum, if it has one.
  Status read_chunk(int64_t chunk, std::span<std::byte> out) const;
  // Returns bytes begin .. begin + length - 1 of a chunk, which is verified first if it was not
  // yet. They are in `memory`, which has room for a whole chunk.
  Result<const std::byte*> read_part(int64_t chunk, int64_t begin, int64_t length,
                                     std::span<std::byte> memory) const;
  bool is_verified(int64_t chunk) const;
  void set_verified(int64_t chunk) const;

  InputFile file_;
  TokenFileHeader header_;
  // One bit per chunk, so that a step allocates nothing.
  std::unique_ptr<std::atomic<uint64_t>[]> verified_;
};

// Checks magic, version and checksum, and that the fields agree with each other and with
// file_bytes.
Result<TokenFileHeader> parse_token_file_header(std::span<const std::byte> bytes,
                                                int64_t file_bytes);
void print_token_file_header(const TokenFileHeader& header,
                             std::span<std::byte, kTokenFileHeaderBytes> bytes);

}  // namespace trireme
