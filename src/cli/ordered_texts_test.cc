#include "cli/ordered_texts.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trireme {
namespace {

TEST(OrderedTexts, TheFirstTextThatHasNotEndedIsPrintedAsItComesAndOthersInTheirTurn) {
  std::ostringstream out;
  OrderedTexts texts({"a:", "b:", "c:"}, true, out);
  std::string expected = "== prompt 1 of 3 ==\na:";
  EXPECT_EQ(out.str(), expected);
  texts.add(0, "1");
  texts.add(1, "2");
  texts.add(2, "3");
  EXPECT_EQ(out.str(), expected += "1");
  texts.end(1);  // it waits for the first one
  EXPECT_EQ(out.str(), expected);
  texts.end(0);
  EXPECT_EQ(out.str(), expected += "\n\n== prompt 2 of 3 ==\nb:2\n\n== prompt 3 of 3 ==\nc:3");
  texts.add(2, "4");
  EXPECT_EQ(out.str(), expected += "4");
  texts.end(2);
  EXPECT_EQ(out.str(), expected += "\n");
}

TEST(OrderedTexts, OneTextHasNoTitle) {
  std::ostringstream out;
  OrderedTexts texts({"Once"}, false, out);
  texts.add(0, " upon");
  texts.end(0);
  EXPECT_EQ(out.str(), "Once upon\n");
}

}  // namespace
}  // namespace trireme
