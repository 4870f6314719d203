#include "failures/text_pattern.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::string_view found(const char* pattern, const char* text) {
  const Result<TextPattern> parsed = TextPattern::parse(pattern);
  EXPECT_TRUE(parsed.ok()) << pattern;
  return parsed.ok() ? parsed->find_in(text) : "";
}

TEST(TextPattern, FindsWordsInOneLineInOrderInAnyLetters) {
  const char* text = "first line\nI/O error, dev SDA: cannot Write 3 blocks\nlast";
  EXPECT_EQ(found("cannot write", text), "I/O error, dev SDA: cannot Write 3 blocks");
  EXPECT_EQ(found("error*write*blocks", text), "I/O error, dev SDA: cannot Write 3 blocks");
  EXPECT_EQ(found("nothing|LAST", text), "last");
  EXPECT_EQ(found("blocks*error", text), "");  // the other order
  EXPECT_EQ(found("first*last", text), "");    // two lines
  EXPECT_EQ(TextPattern().find_in(text), "");
}

TEST(TextPattern, RefusesWhatWouldMatchEverything) {
  for (const char* bad : {"", "*", "a", "ab*", "**..", "good words|", "|x", "no|yes sir"}) {
    EXPECT_FALSE(TextPattern::parse(bad).ok()) << bad;
  }
  EXPECT_FALSE(TextPattern::parse(std::string(500, 'x')).ok());
}

}  // namespace
}  // namespace trireme
