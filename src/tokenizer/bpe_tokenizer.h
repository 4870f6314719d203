#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tokenizer/pair_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  friend bool operator==(BpeMerge, BpeMerge) = default;
};

// What another program's byte-level BPE tokenizer is made of.
struct BpeVocabulary {
  std::vector<std::string> tokens;  // by number: the bytes, or a special token's text
  std::vector<int32_t> special;     // ascending: text never encodes to these
  int32_t end_of_text = 0;          // one of them
  std::vector<BpeMerge> merges;     // earliest first; what they make must be a token
  // Instead of merges (tiktoken): any two tokens that together are a token merge, the one with the
  // smallest number first.
  bool merges_by_rank = false;
  bool whole_words = false;  // a word that is a token is that token, whatever the merges say
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
};

// Byte-level byte-pair encoding. A text is split into words (pre_tokenizer.h); in a word, the
// earliest merge that applies is applied at its leftmost place, until none applies.
class BpeTokenizer : public Tokenizer {
 public:
  // GPT-2's vocabulary: tokens 0 to 255 are the bytes (the printable ones first), 256 + k is what
  // merge k makes, the last one is <|endoftext|>. Refuses merges of tokens that come later,
  // repeated ones, and tokens too long.
  static Result<BpeTokenizer> make(std::vector<BpeMerge> merges);
  // Refuses two tokens of the same bytes, a byte without a token, and merges that make no token.
  static Result<BpeTokenizer> make(BpeVocabulary vocabulary);
  static constexpr int32_t kNumBytes = 256;
  static constexpr size_t kGreatestTokenBytes = 4096;

  static int32_t token_of_byte(uint8_t byte);  // in GPT-2's vocabulary

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(begins_.size()) - 1; }
  int32_t end_of_text() const override { return end_of_text_; }
  std::vector<int32_t> special_tokens() const override { return special_; }
  Status append_tokens(std::string_view text, WordCache& cache,
                       std::vector<int32_t>& tokens) const override;
  std::string_view piece(int32_t token) const override;
  size_t last_split(std::string_view text) const override;
  uint64_t hash() const override;
  std::string to_json() const override;

  // Of GPT-2's form, whose merges and nothing else say what it is.
  bool is_gpt2() const { return is_gpt2_; }
  std::span<const BpeMerge> merges() const { return merges_; }
  bool merges_by_rank() const { return merges_by_rank_; }
  bool whole_words() const { return whole_words_; }
  PreTokenizer pre_tokenizer() const { return pre_tokenizer_; }
  // The tokens of one word, by either of two algorithms with the same result: scanning is fast for
  // short words (and for those alone), a heap does not become quadratic for long ones.
  static constexpr size_t kShortWordBytes = 48;
  void append_by_scan(std::string_view word, std::vector<int32_t>& tokens) const;
  void append_by_heap(std::string_view word, std::vector<int32_t>& tokens) const;

 private:
  BpeTokenizer() = default;
  void add_token(std::string_view bytes);
  Status add_merge(size_t rank);
  Status add_numbers_of_bytes();
  Status add_merges_by_rank();
  void append_word(std::string_view word, std::vector<int32_t>& tokens) const;

  std::vector<BpeMerge> merges_;
  PairTable ranks_;                       // (left, right) -> when it is merged
  std::vector<int32_t> made_;             // by rank: the token that it makes
  std::array<int32_t, 256> byte_tokens_;  // by byte
  std::string bytes_;                     // of all tokens, one after the other
  std::vector<size_t> begins_ = {0};      // of a token in bytes_; one more than there are tokens
  std::unordered_map<std::string, int32_t> numbers_;  // of tokens that are not special; see make()
  std::vector<int32_t> special_;
  int32_t end_of_text_ = 0;
  bool is_gpt2_ = false;
  bool merges_by_rank_ = false;
  bool whole_words_ = false;
  PreTokenizer pre_tokenizer_ = PreTokenizer::Gpt2;
};

}  // namespace trireme
