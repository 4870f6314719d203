#include "jobs/shell_words.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

// "a(1) b(2)": words with their lines, commands behind each other.
std::string shown(const std::string& script) {
  const auto commands = parse_shell(script, "job.sh");
  if (!commands.ok()) return commands.error().message;
  std::string text;
  for (const ShellCommand& command : *commands) {
    for (const ShellWord& word : command) text += fmt::format("{}({}) ", word.text, word.line);
    text += "| ";
  }
  return text;
}

// The words of each script are those that bash prints for it.
TEST(ShellWords, AreThoseOfBash) {
  EXPECT_EQ(shown("a 'b c' \"d $e\" # f\ng"), "a(1) b c(1) d $e(1) | g(2) | ");
  EXPECT_EQ(shown("a \\\n  b \\\n  c"), "a(1) b(2) c(3) | ");
  EXPECT_EQ(shown("A=(\n --x 1\n # no\n --y '2 3'\n)\nrun \"${A[@]}\" z"),
            "run(6) --x(2) 1(2) --y(4) 2 3(4) z(6) | ");
  EXPECT_EQ(shown("N=2\nM=$((N * (3 + 1)))\nrun $M ${N}x ${P:-7} $N$M"),
            "run(3) 8(3) 2x(3) 7(3) 28(3) | ");
  EXPECT_EQ(shown("A=\"--x 1\"\nA+=' --y'\nrun $A; run \"$A\""),
            "run(3) --x(3) 1(3) --y(3) | run(3) --x 1 --y(3) | ");
  EXPECT_EQ(shown("export A=1\nA=(x)\nA+=(y)\nrun ${A[*]} \\$A \"\""),
            "run(4) x(2) y(3) $A(4) (4) | ");
}

TEST(ShellWords, WithoutAValueStayAsWritten) {
  EXPECT_EQ(shown("run $A ${B} $(pwd) `date` $((A + 1)) \"$@\""),
            "run(1) $A(1) ${B}(1) $(pwd)(1) `date`(1) $((A + 1))(1) $@(1) | ");
  EXPECT_EQ(shown("run $((1 / 0)) $((9999999999 * 9))"),
            "run(1) $((1 / 0))(1) $((9999999999 * 9))(1) | ");
}

TEST(ShellWords, RefusesWhatIsNotClosed) {
  EXPECT_EQ(shown("a\nb 'c"), "job.sh:2: a ' is not closed: add the second one");
  EXPECT_EQ(shown("a \"c"), "job.sh:1: a \" is not closed: add the second one");
  EXPECT_EQ(shown("a\nb $((2 +\n"), "job.sh:2: a $( is not closed: add the )");
  EXPECT_EQ(shown("a ${B\n"), "job.sh:1: a ${ is not closed: add the }");
  EXPECT_EQ(shown("x\nA=(b\nc"), "job.sh:2: the array that begins here has no ): add it");
}

// Every byte is read, wherever it stands: the reader always ends.
TEST(ShellWords, EndsOnEveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    for (const std::string& script : {one, "a" + one, "a " + one + " b", "A=" + one,
                                      "A=(" + one + ")", "\"" + one, "$" + one}) {
      EXPECT_TRUE(parse_shell(script, "job.sh").ok() || shown(script).starts_with("job.sh:"));
    }
  }
}

// Expansion cannot make a small script large.
TEST(ShellWords, RefusesWordsThatGrow) {
  std::string script = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) script += "A=$A$A\n";
  EXPECT_NE(shown(script).find("too long"), std::string::npos);
}

}  // namespace
}  // namespace trireme
