#include "tokenizer/foreign_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tokenizer/byte_spelling.h"

namespace trireme {
namespace {

constexpr int64_t kGreatestNumber = int64_t{1} << 30;

}  // namespace

Status VocabularyBuilder::add(const std::string& spelling, int64_t number) {
  if (number < 0 || number > kGreatestNumber)
    return damaged(fmt::format("\"{}\" has the number {}", spelling, number));
  const auto [other, is_new] = spellings_.emplace(number, spelling);
  if (!is_new)
    return damaged(
        fmt::format("\"{}\" and \"{}\" have the number {}", other->second, spelling, number));
  if (!numbers_.emplace(spelling, number).second)
    return damaged(fmt::format("\"{}\" has two numbers", spelling));
  return Done{};
}

Status VocabularyBuilder::add_unspelled(const std::string& text, int64_t number) {
  if (const auto found = spellings_.find(number); found == spellings_.end()) {
    TRIREME_TRY_DONE(add(text, number));
  } else if (found->second != text) {
    return damaged(
        fmt::format("token {} is \"{}\" in the vocabulary and \"{}\" among the added tokens",
                    number, found->second, text));
  }
  if (special_.count(number) > 0 || added_.count(number) > 0)
    return damaged(fmt::format("token {} is added twice", number));
  return Done{};
}

Status VocabularyBuilder::add_special(const std::string& text, int64_t number) {
  TRIREME_TRY_DONE(add_unspelled(text, number));
  special_.emplace(number, text);
  return Done{};
}

Status VocabularyBuilder::add_added(const std::string& text, int64_t number, bool is_first) {
  TRIREME_TRY_DONE(add_unspelled(text, number));
  added_.emplace(number, AddedToken{static_cast<int32_t>(number), is_first});
  return Done{};
}

Status VocabularyBuilder::add_merge(std::string_view left, std::string_view right) {
  const auto left_number = numbers_.find(left);
  const auto right_number = numbers_.find(right);
  if (left_number == numbers_.end() || right_number == numbers_.end()) {
    return damaged(fmt::format("merge {}: \"{}\" is not in the vocabulary", merges_.size(),
                               left_number == numbers_.end() ? left : right));
  }
  merges_.push_back(
      {static_cast<int32_t>(left_number->second), static_cast<int32_t>(right_number->second)});
  return Done{};
}

Status VocabularyBuilder::add_merge_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return damaged(fmt::format("the merge \"{}\" is not two tokens and a space", line));
  }
  return add_merge(line.substr(0, space), line.substr(space + 1));
}

void VocabularyBuilder::make_unmade_special() {
  std::set<std::string> made;
  for (const BpeMerge& merge : merges_)
    made.insert(spellings_[merge.left] + spellings_[merge.right]);
  for (const auto& [number, spelling] : spellings_) {
    const auto bytes = bytes_of_spelling(spelling);
    const bool is_byte = bytes && bytes->size() == 1;
    if (!is_byte && made.count(spelling) == 0) special_.emplace(number, spelling);
  }
}

Result<BpeTokenizer> VocabularyBuilder::finish(const ForeignTokenizerOptions& options,
                                               PreTokenizer pre_tokenizer, bool whole_words) {
  if (special_.empty() && !spellings_.empty()) {
    const std::string text =
        options.end_of_text.empty() ? std::string(kEndOfText) : options.end_of_text;
    const auto known = numbers_.find(text);
    TRIREME_TRY_DONE(add_special(
        text, known == numbers_.end() ? spellings_.rbegin()->first + 1 : known->second));
  }
  BpeVocabulary vocabulary{.merges = std::move(merges_),
                           .whole_words = whole_words,
                           .pre_tokenizer = pre_tokenizer,
                           .post_processor = std::move(post_processor_)};
  for (const auto& [number, spelling] : spellings_) {
    if (number != static_cast<int64_t>(vocabulary.tokens.size())) {
      return damaged(fmt::format("no token has the number {}", vocabulary.tokens.size()));
    }
    if (special_.count(number) > 0) {
      vocabulary.special.push_back(static_cast<int32_t>(number));
      if (spelling == options.begin_of_text) vocabulary.begin_of_text = int32_t(number);
      vocabulary.tokens.push_back(spelling);
      continue;
    }
    if (const auto added = added_.find(number); added != added_.end()) {
      vocabulary.added.push_back(added->second);
      vocabulary.tokens.push_back(spelling);
      continue;
    }
    const auto bytes = bytes_of_spelling(spelling);
    if (!bytes) {
      return damaged(fmt::format(
          "token {} (\"{}\") has a character that spells no byte: not a byte-level vocabulary",
          number, spelling));
    }
    vocabulary.tokens.push_back(*bytes);
  }
  for (const auto& [number, strip] : stripping_) vocabulary.stripping.push_back(strip);
  TRIREME_TRY(end_of_text, find_end_of_text(special_, options.end_of_text));
  vocabulary.end_of_text = end_of_text;
  return BpeTokenizer::make(std::move(vocabulary));
}

Result<int32_t> find_end_of_text(const std::map<int64_t, std::string>& special,
                                 const std::string& wanted) {
  const auto find = [&](std::string_view name) {
    return std::find_if(special.begin(), special.end(),
                        [&](const auto& entry) { return entry.second == name; });
  };
  for (const std::string_view usual :
       {std::string_view(wanted), kEndOfText, std::string_view("<|end_of_text|>"),
        std::string_view("</s>"), std::string_view("<|eot_id|>")}) {
    const auto found = find(usual);
    if (!usual.empty() && found != special.end()) return static_cast<int32_t>(found->first);
    if (!wanted.empty())
      return Error{ErrorKind::Usage, "there is no special token \"" + wanted + "\""};
  }
  return Error{ErrorKind::Infeasible,
               "no special token ends a text (<|endoftext|>, <|end_of_text|>, </s>): name one with "
               "--end-of-text"};
}

}  // namespace trireme
