#include "cli/printable.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trireme {
namespace {

TEST(Printable, LetsTextThroughAndMakesControlCharactersVisible) {
  EXPECT_EQ(printable("a\tb\nsch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x98\x80"),
            "a\tb\nsch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\x1b]0;title\x07\r\x7f"), "\\x1b]0;title\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "cba"),
            "\\u202ecba");
  EXPECT_EQ(printable("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");
}

// Tests every text of two bytes and a long text with every byte: only harmless characters are left.
TEST(Printable, LeavesNoByteThatATerminalObeys) {
  const auto expect_harmless = [](const std::string& text) {
    for (const char c : printable(text)) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE((byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t');
    }
    EXPECT_EQ(printable(text).find("\xc2\x9b"), std::string::npos);
  };
  std::string all;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text = {char(a), char(b)};
      expect_harmless(text);
      all += text;
    }
  }
  expect_harmless(all);
}

TEST(Printable, AStreamShowsTheSameHoweverItsTextIsCut) {
  const std::string text = "\xe2\x82\xac\x1b[2J\xf0\x9f\x98\x80\xe2\x82.\xc2\x9bx\xf0\x9f";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      std::ostringstream shown;
      {
        PrintableBuffer buffer(*shown.rdbuf());
        std::ostream out(&buffer);
        out << text.substr(0, first) << std::flush << text.substr(first, second - first)
            << std::flush;
        for (const char c : text.substr(second)) out.put(c);
      }
      ASSERT_EQ(shown.str(), printable(text)) << first << " " << second;
    }
  }
}

TEST(Printable, ControlSequencesOfTheProgramPass) {
  std::ostringstream shown;
  PrintableBuffer buffer(*shown.rdbuf());
  std::ostream out(&buffer);
  write_control(out, "\x1b[1m");
  out << "\x1b[1m";
  EXPECT_EQ(shown.str(), "\x1b[1m\\x1b[1m");
  std::ostringstream plain;
  write_control(plain, "\r\x1b[2K");
  EXPECT_EQ(plain.str(), "\r\x1b[2K");
}

}  // namespace
}  // namespace trireme
