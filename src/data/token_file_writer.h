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

// Writes a token file in pieces; it appears under its name whole or not at all.
class TokenFileWriter {
 public:
  static Result<TokenFileWriter> create(const std::string& path, int64_t vocab_size,
                                        uint64_t tokenizer_hash);

  // Refuses a token outside the vocabulary.
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
  std::unique_ptr<Hasher64> payload_hash_;  // not movable itself
  std::vector<uint64_t> chunk_hashes_;
  std::vector<std::byte> packed_;  // tokens in the file's width, from the last chunk's start on
};

}  // namespace trireme
