#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/pair_table.h"
#include "data/tokenizer.h"

namespace trireme {

struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  friend bool operator==(BpeMerge, BpeMerge) = default;
};

// Byte-level byte-pair encoding (GPT-2). Tokens 0 to 255 are the bytes in GPT-2's order (the
// printable ones first), 256 + k is what merge k makes, the last one is <|endoftext|>. A text is
// split into words (pre_tokenizer.h); in a word, the earliest merge that applies is applied at its
// leftmost place, until none applies.
class BpeTokenizer : public Tokenizer {
 public:
  // Refuses merges of tokens that come later, repeated ones, and tokens too long.
  static Result<BpeTokenizer> make(std::vector<BpeMerge> merges);
  static constexpr int32_t kNumBytes = 256;
  static constexpr size_t kGreatestTokenBytes = 4096;

  static int32_t token_of_byte(uint8_t byte);

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override;
  Status append_tokens(std::string_view text, WordCache& cache,
                       std::vector<int32_t>& tokens) const override;
  std::string_view piece(int32_t token) const override;
  size_t last_split(std::string_view text) const override;
  uint64_t hash() const override;
  std::string to_json() const override;

  std::span<const BpeMerge> merges() const { return merges_; }
  // The tokens of one word, by either of two algorithms with the same result: scanning is fast for
  // short words (and for those alone), a heap does not become quadratic for long ones.
  static constexpr size_t kShortWordBytes = 48;
  void append_by_scan(std::string_view word, std::vector<int32_t>& tokens) const;
  void append_by_heap(std::string_view word, std::vector<int32_t>& tokens) const;

 private:
  BpeTokenizer() = default;
  Status add_piece(size_t merge_index);

  std::vector<BpeMerge> merges_;
  PairTable merged_;            // (left, right) -> the token that they make
  std::string bytes_;           // of all tokens, one after the other
  std::vector<size_t> begins_;  // of a token in bytes_; one more than there are tokens
};

}  // namespace trireme
