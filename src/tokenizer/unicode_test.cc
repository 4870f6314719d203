#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace trireme {
namespace {

TEST(Utf8, EveryCodePointRoundTripsAndSurrogatesAreInvalid) {
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    std::string text;
    append_utf8(code_point, text);
    const DecodedChar decoded = decode_utf8(text + "x");
    if (code_point >= 0xD800 && code_point <= 0xDFFF) {
      ASSERT_EQ(decoded.code_point, kInvalidByte + 0xED);
      ASSERT_EQ(decoded.length, 1);
    } else {
      ASSERT_EQ(decoded.code_point, code_point);
      ASSERT_EQ(decoded.length, static_cast<int>(text.size()));
    }
  }
}

// Only the shortest form is valid: of all sequences of two, three and four bytes, as many are valid
// as there are code points of that length.
TEST(Utf8, NoOtherSequenceIsValid) {
  int64_t valid[5] = {};
  for (int a = 0x80; a < 0x100; ++a) {
    for (int b = 0x70; b < 0xD0; ++b) {
      std::string text = {static_cast<char>(a), static_cast<char>(b)};
      valid[2] += decode_utf8(text).length == 2;
      for (int c : {0x7F, 0x80, 0x9A, 0xBF, 0xC0}) {
        text.resize(2);
        text += static_cast<char>(c);
        valid[3] += decode_utf8(text).length == 3;
        for (int d : {0x7F, 0x80, 0xBF, 0xC0}) {
          text.resize(3);
          text += static_cast<char>(d);
          valid[4] += decode_utf8(text).length == 4;
        }
      }
    }
  }
  EXPECT_EQ(valid[2], 0x800 - 0x80);
  EXPECT_EQ(valid[3], (0x10000 - 0x800 - 0x800) / 64 * 3);
  EXPECT_EQ(valid[4], 0x100000 / 4096 * 3 * 2);
}

TEST(Utf8Check, CountsTheSameInPiecesOfAnySize) {
  const std::vector<std::pair<std::string, int64_t>> cases = {{"plain ascii of some length", 0},
                                                              {"gr\xC3\xB6\xC3\x9F", 0},
                                                              {"a\xE9"
                                                               "b",
                                                               1},
                                                              {"\xF0\x9F\x98\x80", 0},
                                                              {"\xF0\x9F\x98", 3},
                                                              {"\xE2\x82", 2},
                                                              {"\xE2\x28\xA1", 2},
                                                              {"\xED\xA0\x80", 3},
                                                              {"x\xC3", 1},
                                                              {"\xC3\xC3\xB6", 1},
                                                              {"\xF0\x9F\xC3\xB6zz\xFF", 3},
                                                              {"", 0}};
  for (const auto& [text, expected] : cases) {
    Utf8Check whole;
    whole.add(text);
    whole.finish();
    EXPECT_EQ(whole.num_invalid(), expected) << text;
    for (size_t step = 1; step <= text.size(); ++step) {
      Utf8Check pieces;
      for (size_t begin = 0; begin < text.size(); begin += step) {
        pieces.add(std::string_view(text).substr(begin, step));
      }
      pieces.finish();
      EXPECT_EQ(pieces.num_invalid(), expected) << text << " in pieces of " << step;
      EXPECT_EQ(pieces.first_invalid(), whole.first_invalid()) << text << " in pieces of " << step;
    }
  }
}

TEST(CharClass, EqualsUnicodeDataWhereItIsInstalled) {
  std::ifstream data("/usr/share/unicode/UnicodeData.txt");
  std::ifstream properties("/usr/share/unicode/PropList.txt");
  if (!data || !properties) GTEST_SKIP() << "unicode-data is not installed";
  std::vector<CharClass> expected(0x110000, CharClass::Other);
  std::string line;
  std::getline(properties, line);
  if (line != "# PropList-15.0.0.txt") GTEST_SKIP() << line;
  while (std::getline(properties, line)) {
    if (line.find("; White_Space") == std::string::npos) continue;
    const uint32_t first = std::stoul(line, nullptr, 16);
    const size_t dots = line.find("..");
    const uint32_t last =
        dots == std::string::npos ? first : std::stoul(line.substr(dots + 2), nullptr, 16);
    for (uint32_t c = first; c <= last; ++c) expected[c] = CharClass::Space;
  }
  uint32_t first = 0;
  while (std::getline(data, line)) {
    std::stringstream fields(line);
    std::string code_point, name, category;
    std::getline(fields, code_point, ';');
    std::getline(fields, name, ';');
    std::getline(fields, category, ';');
    const uint32_t last = std::stoul(code_point, nullptr, 16);
    if (name.find("First>") != std::string::npos) {
      first = last;
      continue;
    }
    if (name.find("Last>") == std::string::npos) first = last;
    for (uint32_t c = first; c <= last; ++c) {
      if (category[0] == 'L') expected[c] = CharClass::Letter;
      if (category[0] == 'N') expected[c] = CharClass::Number;
    }
  }
  for (uint32_t c = 0; c < 0x110000; ++c) ASSERT_EQ(char_class(c), expected[c]) << std::hex << c;
}

}  // namespace
}  // namespace trireme
