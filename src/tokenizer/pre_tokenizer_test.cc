#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/philox.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text, PreTokenizer pre_tokenizer = PreTokenizer::Gpt2) {
  Words words;
  while (!text.empty()) {
    const size_t bytes = first_word_bytes(text, pre_tokenizer);
    EXPECT_GT(bytes, 0u);
    words.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return words;
}

TEST(PreTokenizer, SplitsAsTheExpressionOfGpt2) {
  const std::vector<std::pair<std::string, Words>> cases = {
      {"Hello world", {"Hello", " world"}},
      {"we'll don't I'm you've they're he'd it's",
       {"we", "'ll", " don", "'t", " I", "'m", " you", "'ve", " they", "'re", " he", "'d", " it",
        "'s"}},
      {"IT'S", {"IT", "'", "S"}},
      {"'super", {"'s", "uper"}},
      {" 'super", {" '", "super"}},
      {"''s", {"''", "s"}},
      {"'l", {"'", "l"}},
      {"'", {"'"}},
      {"a  b", {"a", " ", " b"}},
      {"a   b", {"a", "  ", " b"}},
      {"a\nb", {"a", "\n", "b"}},
      {"a\n\nb", {"a", "\n", "\n", "b"}},
      {"a \n b", {"a", " \n", " b"}},
      {"a  ", {"a", "  "}},
      {" ", {" "}},
      {"  \n", {"  \n"}},
      {"x 12,5 %", {"x", " 12", ",", "5", " %"}},
      {"abc123", {"abc", "123"}},
      {"a\xC2\xA0"
       "b",
       {"a", "\xC2\xA0", "b"}},
      {"a \xE3\x80\x80\xE3\x80\x80"
       "b",
       {"a", " \xE3\x80\x80", "\xE3\x80\x80", "b"}},
      {"\xD1\x8F \xD1\x8F!", {"\xD1\x8F", " \xD1\x8F", "!"}},
      {"caf\xE9 \xC2\xBD", {"caf", "\xE9", " \xC2\xBD"}},
      {"\xE2\x85\xA7z", {"\xE2\x85\xA7", "z"}},
      {"\xE1\xA0\x8E"
       "a",
       {"\xE1\xA0\x8E", "a"}},  // U+180E is not a space since Unicode 6.3
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(words_of(text), expected) << text;
}

// Makes random texts over an alphabet with every class, contractions and damaged UTF-8.
std::string random_characters(uint64_t seed, size_t length) {
  static const char* const kParts[] = {"a",
                                       "s",
                                       "'",
                                       "t",
                                       "re",
                                       "ll",
                                       " ",
                                       " ",
                                       "\n",
                                       "5",
                                       "!",
                                       "\xC3\xA9",
                                       "'d",
                                       "-",
                                       "  ",
                                       "\xC2\xA0",
                                       "\xE4\xB8\xAD",
                                       "\xE3\x80\x82",
                                       "\xE9",
                                       "\r\n",
                                       "1234",
                                       "'LL",
                                       "\xF0\x9F"};
  std::string text;
  for (uint64_t k = 0; text.size() < length; ++k) {
    text += kParts[philox(RngKey{seed}, counter_of(0, k))[0] % std::size(kParts)];
  }
  return text;
}

void check_cuts(PreTokenizer pre_tokenizer) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = random_characters(seed, 5 + seed % 40);
    const Words whole = words_of(text, pre_tokenizer);
    // The text is cut when only its first `num_seen` bytes are known.
    for (size_t num_seen = 1; num_seen <= text.size(); ++num_seen) {
      const std::string_view view(text);
      const size_t split = last_word_split(view.substr(0, num_seen), pre_tokenizer);
      ASSERT_LE(split, num_seen);
      if (split == 0) continue;
      Words parts = words_of(view.substr(0, split), pre_tokenizer);
      for (std::string& word : words_of(view.substr(split), pre_tokenizer))
        parts.push_back(std::move(word));
      ASSERT_EQ(parts, whole) << "seed " << seed << " cut at " << split << " of " << num_seen;
    }
  }
}

TEST(PreTokenizer, SplitsAsTheExpressionOfLlama3) {
  const std::vector<std::pair<std::string, Words>> cases = {
      {"Hello world", {"Hello", " world"}},
      {"IT'S we'Ll", {"IT", "'S", " we", "'Ll"}},
      {"a'\xC5\xBF", {"a", "'\xC5\xBF"}},
      {"12345", {"123", "45"}},
      {"(abc)", {"(abc", ")"}},
      {"\tabc", {"\tabc"}},
      {"a;\n\nb", {"a", ";\n\n", "b"}},
      {"a \n \n  b", {"a", " \n \n", " ", " b"}},
      {"a  \r\n", {"a", "  \r\n"}},
      {"a   ", {"a", "   "}},
      {" !\r\n", {" !\r\n"}},
      {"\nabc", {"\n", "abc"}},
      {"\xE9s", {"\xE9s"}},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(words_of(text, PreTokenizer::Llama3), expected) << text;
  }
}

TEST(PreTokenizer, CutTextHasTheWordsOfTheWholeWhateverFollows) {
  check_cuts(PreTokenizer::Gpt2);
  check_cuts(PreTokenizer::Llama3);
}

TEST(PreTokenizer, TextWithSpacesOrPunctuationCanBeCut) {
  EXPECT_GT(last_word_split("two words and more"), 10u);
  EXPECT_GT(last_word_split("\xD1\x8F \xD1\x8F\xD1\x8F\xD1\x8F"), 0u);
  EXPECT_GT(last_word_split("\xE4\xB8\xAD\xE3\x80\x82\xE4\xB8\xAD\xE4\xB8\xAD"), 0u);
  EXPECT_EQ(last_word_split("oneword"), 0u);
  EXPECT_EQ(last_word_split(""), 0u);
}

}  // namespace
}  // namespace trireme
