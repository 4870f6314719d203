// Compares the pre-tokenizers with a regular-expression engine that runs their patterns literally.

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "tokenizer/foreign_vocabulary.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

class Pattern {
 public:
  explicit Pattern(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    TRIREME_CHECK(code_ != nullptr, "the pattern does not compile");
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }
  // Returns all matches in order, and also the text between them.
  Words words_of(std::string_view text) const {
    Words words;
    size_t begin = 0;
    while (begin < text.size()) {
      const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
      if (pcre2_match(code_.get(), subject, text.size(), begin, 0, match_.get(), nullptr) < 0)
        break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_.get());
      if (range[0] > begin) words.emplace_back(text.substr(begin, range[0] - begin));
      words.emplace_back(text.substr(range[0], range[1] - range[0]));
      begin = range[1];
    }
    if (begin < text.size()) words.emplace_back(text.substr(begin));
    return words;
  }
  bool matches(std::string_view text) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       match_.get(), nullptr) >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

std::string utf8(uint32_t code_point) {
  std::string text;
  append_utf8(code_point, text);
  return text;
}

Words our_words(std::string_view text, PreTokenizer pre_tokenizer) {
  Words words;
  while (!text.empty()) {
    const size_t bytes = first_word_bytes(text, pre_tokenizer);
    words.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return words;
}

// Returns the code points on whose class both agree; the engine may use another Unicode version.
std::vector<uint32_t> common_code_points() {
  const Pattern letter("^\\p{L}"), number("^\\p{N}"), space("^\\s"), unassigned("^\\p{Cn}");
  std::vector<uint32_t> common;
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    const std::string text = utf8(code_point);
    const CharClass theirs = letter.matches(text)   ? CharClass::Letter
                             : number.matches(text) ? CharClass::Number
                             : space.matches(text)  ? CharClass::Space
                                                    : CharClass::Other;
    if (theirs == char_class(code_point)) {
      common.push_back(code_point);
    } else {
      // U+180E was a space in older Unicode versions.
      EXPECT_TRUE(unassigned.matches(text) || code_point == 0x180E) << std::hex << code_point;
    }
  }
  EXPECT_GT(common.size(), size_t{0x110000 - 2048 - 6000});
  return common;
}

TEST(PreTokenizerOracle, WordsAreTheMatchesOfThePatternOnTextsOfAllCategories) {
  const std::vector<uint32_t> code_points = common_code_points();
  static const char* const kParts[] = {
      "a",       "S",  "'", "'LL", "'re", "'\xC5\xBF", " ",        "  ",           "\n",
      "\r\n",    "\t", "7", "123", "!",   "...",       "\xC2\xA0", "\xE2\x80\xA8", "\xE4\xB8\xAD",
      "\xC2\xBD"};
  const std::pair<PreTokenizer, Pattern> tokenizers[] = {
      {PreTokenizer::Gpt2, Pattern(kGpt2Regex)}, {PreTokenizer::Llama3, Pattern(kLlama3Regex)}};
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::string text;
    for (uint64_t k = 0; k < 4 + seed % 24; ++k) {
      const auto random = philox(RngKey{seed}, counter_of(0, k));
      if (random[0] % 4 == 0) {
        text += utf8(code_points[random[1] % code_points.size()]);
      } else {
        text += kParts[random[1] % std::size(kParts)];
      }
    }
    for (const auto& [pre_tokenizer, pattern] : tokenizers) {
      ASSERT_EQ(our_words(text, pre_tokenizer), pattern.words_of(text))
          << name_of(pre_tokenizer) << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace trireme
