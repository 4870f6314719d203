#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/foreign_tokenizer.h"

// Internal to this folder: shared by the readers of foreign tokenizers.
namespace trireme {

// The patterns as tokenizer.json spells them.
inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Collects a vocabulary whose tokens are named by their spelling.
class VocabularyBuilder {
 public:
  // An error if the number already has another text.
  Status add(const std::string& spelling, int64_t number);
  Status add_special(const std::string& text, int64_t number);
  // Makes a special token strip white space; see StrippingToken.
  void strip(StrippingToken token) { stripping_.emplace(token.token, token); }
  // Adds an added token; see AddedToken for is_first.
  Status add_added(const std::string& text, int64_t number, bool is_first);
  // `left` and `right` are spellings of added tokens.
  Status add_merge(std::string_view left, std::string_view right);
  // Such as "a b", because spellings contain no space.
  Status add_merge_line(std::string_view line);
  // Makes every token special that is neither a byte nor the result of a merge.
  void make_unmade_special();

  // Keeps a post-processor of Hugging Face, which is a JSON object, for exports.
  void keep_post_processor(std::string json) { post_processor_ = std::move(json); }

  // Makes the tokenizer. If no token is special, options.end_of_text or else <|endoftext|> becomes
  // special, and is added after the last token if it is missing. A Damaged error if a number
  // between 0 and the largest one has no token.
  Result<BpeTokenizer> finish(const ForeignTokenizerOptions& options, PreTokenizer pre_tokenizer,
                              bool whole_words);

 private:
  std::map<int64_t, std::string> spellings_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  // Adds a token with a text of its own. The vocabulary may already have it.
  Status add_unspelled(const std::string& text, int64_t number);
  // [number] the text of a special token, and the properties of an added token.
  std::map<int64_t, std::string> special_;
  std::map<int64_t, AddedToken> added_;
  std::map<int32_t, StrippingToken> stripping_;
  std::string post_processor_;
  std::vector<BpeMerge> merges_;
};

// Returns the number of the special token that ends a text.
Result<int32_t> find_end_of_text(const std::map<int64_t, std::string>& special,
                                 const std::string& wanted);

}  // namespace trireme
