#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tokenizer/pair_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_matches.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  friend bool operator==(BpeMerge, BpeMerge) = default;
};

// The parts of another program's byte-level BPE tokenizer.
struct BpeVocabulary {
  // [token] its bytes, or the text of a special or added token.
  std::vector<std::string> tokens;
  std::vector<int32_t> special;           // ascending; text is never encoded to these
  std::vector<AddedToken> added;          // ascending; none of them is special
  std::vector<StrippingToken> stripping;  // ascending; all of them are special
  int32_t end_of_text = 0;                // one of the special tokens
  std::vector<BpeMerge> merges;           // in order of priority; their results must be tokens
  // Instead of merges (tiktoken): two tokens merge if together they are a token; the smallest
  // resulting number merges first.
  bool merges_by_rank = false;
  // A word that is itself a token becomes that token, whatever the merges say.
  bool whole_words = false;
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
  // Both say which tokens the other program adds to a text. They are kept only for exports; our own
  // encoding adds no tokens.
  std::optional<int32_t> begin_of_text;  // a special token that comes before a text
  std::string post_processor;            // a JSON object of Hugging Face, or empty
};

// Byte-level byte-pair encoding. A text is split into words (pre_tokenizer.h). In a word, the
// earliest merge that applies is applied at its leftmost place, until none applies.
class BpeTokenizer : public Tokenizer {
 public:
  // Makes a tokenizer with GPT-2's vocabulary: tokens 0 to 255 are the bytes (the printable ones
  // first), 256 + k is the result of merge k, and the last one is <|endoftext|>. An error if a
  // merge uses a later token or is repeated, or a token is too long.
  static Result<BpeTokenizer> make(std::vector<BpeMerge> merges, std::string post_processor = "");
  // An error if two tokens have the same bytes, a byte has no token, or a merge makes no token.
  static Result<BpeTokenizer> make(BpeVocabulary vocabulary);
  static constexpr int32_t kNumBytes = 256;
  static constexpr size_t kGreatestTokenBytes = 4096;

  static int32_t token_of_byte(uint8_t byte);  // in the vocabulary of GPT-2

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(begins_.size()) - 1; }
  int32_t end_of_text() const override { return end_of_text_; }
  std::vector<int32_t> special_tokens() const override { return special_; }
  std::vector<StrippingToken> stripping_tokens() const override { return stripping_; }
  std::vector<AddedToken> added_tokens() const override { return added_; }
  Status append_tokens(std::string_view text, WordCache& cache,
                       std::vector<int32_t>& tokens) const override;
  std::string_view piece(int32_t token) const override;
  size_t last_split(std::string_view text) const override;
  uint64_t hash() const override;
  std::string to_json() const override;

  // True if the vocabulary has GPT-2's form, so that its merges define it completely.
  bool is_gpt2() const { return is_gpt2_; }
  std::span<const BpeMerge> merges() const { return merges_; }
  bool merges_by_rank() const { return merges_by_rank_; }
  bool whole_words() const { return whole_words_; }
  PreTokenizer pre_tokenizer() const { return pre_tokenizer_; }
  std::optional<int32_t> begin_of_text() const { return begin_of_text_; }
  const std::string& post_processor() const { return post_processor_; }
  // True if the token has a text of its own, and no merge makes it.
  bool is_special_or_added(int32_t token) const;
  // Two algorithms for the tokens of one word with the same result: scanning is fast for short
  // words (and allowed only for them); the heap is not quadratic for long words.
  static constexpr size_t kShortWordBytes = 48;
  void append_by_scan(std::string_view word, std::vector<int32_t>& tokens) const;
  void append_by_heap(std::string_view word, std::vector<int32_t>& tokens) const;

 private:
  BpeTokenizer() = default;
  void add_token(std::string_view bytes);
  Status add_merge(size_t rank);
  Status add_added_tokens();
  Status check_stripping_tokens() const;
  Status add_numbers_of_bytes();
  Status add_merges_by_rank();
  Status append_words(std::string_view text, WordCache& cache, std::vector<int32_t>& tokens) const;
  void append_word(std::string_view word, std::vector<int32_t>& tokens) const;

  std::vector<BpeMerge> merges_;
  PairTable ranks_;                       // (left, right) -> rank of the merge
  std::vector<int32_t> made_;             // [rank] the token that the merge makes
  std::array<int32_t, 256> byte_tokens_;  // [byte]
  std::string bytes_;                     // bytes of all tokens, one after the other
  std::vector<size_t> begins_ = {0};      // [token] begin in bytes_, and the end of the last token
  // Number of each token that is not special; see make().
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<int32_t> special_;
  std::vector<StrippingToken> stripping_;
  std::vector<AddedToken> added_;
  TextMatches first_matches_;  // added tokens with is_first
  TextMatches matches_;        // the other added tokens
  int32_t end_of_text_ = 0;
  bool is_gpt2_ = false;
  bool merges_by_rank_ = false;
  bool whole_words_ = false;
  PreTokenizer pre_tokenizer_ = PreTokenizer::Gpt2;
  std::optional<int32_t> begin_of_text_;
  std::string post_processor_;
};

}  // namespace trireme
