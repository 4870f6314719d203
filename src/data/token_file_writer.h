#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "data/token_file.h"

namespace trireme {

// Writes a token file in pieces. It appears under its name complete or not at all.
class TokenFileWriter {
 public:
  // Only a file with a loss mask takes tokens for which is_counted() is false (token_file.h).
  static Result<TokenFileWriter> create(const std::string& path, int64_t vocab_size,
                                        uint64_t tokenizer_hash, bool has_loss_mask = false);

  // An error if a token is outside the vocabulary.
  Status append(std::span<const int32_t> tokens);

  struct Totals {
    int64_t num_documents = 0;
    int64_t text_bytes = 0;
  };
  // Returns the header as written.
  Result<TokenFileHeader> finish(const Totals& totals);

 private:
  TokenFileWriter(std::string path, const TokenFileHeader& header, AtomicFile file);
  void close_chunk(std::span<const std::byte> tokens);

  std::string path_;
  TokenFileHeader header_;
  AtomicFile file_;
  std::unique_ptr<Hasher64> payload_hash_;  // a pointer, because it cannot be moved
  std::vector<uint64_t> chunk_hashes_;
  // Tokens in the width of the file, from the start of the last chunk.
  std::vector<std::byte> packed_;
};

}  // namespace trireme
