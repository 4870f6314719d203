#include "base/bounded_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/bounded_child.h"

namespace trireme {
namespace {

std::string nested(int levels) {
  return std::string(size_t(levels), '[') + std::string(size_t(levels), ']');
}

std::string message_of(std::string_view text, const JsonLimits& limits) {
  const Status status = check_json_limits(text, limits);
  return status.ok() ? "" : status.error().message;
}

TEST(BoundedJson, EveryDepthUpToTheLimitIsReadAndNoneAboveIt) {
  for (int levels = 1; levels <= 2 * limits::kDepth; ++levels) {
    EXPECT_EQ(parse_bounded_json(nested(levels)).ok(), levels <= limits::kDepth) << levels;
  }
  EXPECT_NE(message_of(nested(65), {}).find("deeper than 64 levels (byte 64)"), std::string::npos);
}

// The text may be one line of a file, which the caller names; the parser's own words for an
// exception are nobody's.
TEST(BoundedJson, AProblemIsToldWithoutTheNameOfAnException) {
  for (const char* text : {"x", "{\"a\": tru}", "[1,", "{\n\"a\": x}", "[1e999]"}) {
    const auto parsed = parse_bounded_json(text);
    ASSERT_FALSE(parsed.ok()) << text;
    const std::string& message = parsed.error().message;
    EXPECT_TRUE(message.starts_with("not JSON: ")) << message;
    EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
    EXPECT_EQ(message.find("line 1,"), std::string::npos) << message;
  }
  EXPECT_NE(parse_bounded_json("{\n\"a\": x}").error().message.find("line 2, column"),
            std::string::npos);
  EXPECT_TRUE(parse_bounded_json("x").error().message.starts_with("not JSON: at column 1: "));
}

TEST(BoundedJson, BracketsAndCommasInStringsCountForNothing) {
  const std::string text = R"({"a":"[[[[{{{{,,,,\"[[[[\\","b":["]]]]\\\"{{"]})";
  EXPECT_EQ(message_of(text, {.depth = 2, .values = 4, .members = 2}), "");
  EXPECT_TRUE(parse_bounded_json(text).ok());
}

TEST(BoundedJson, EachLimitIsTheLargestNumberThatPasses) {
  const std::string text = R"({"a":[1,2,3],"bcd":"efgh"})";
  const JsonLimits enough{.depth = 2, .values = 6, .token_bytes = 5, .members = 3};
  EXPECT_EQ(message_of(text, enough), "");
  for (int which = 0; which < 4; ++which) {
    JsonLimits less = enough;
    if (which == 0) less.depth -= 1;
    if (which == 1) less.values -= 1;
    if (which == 2) less.token_bytes -= 1;
    if (which == 3) less.members -= 1;
    EXPECT_NE(message_of(text, less), "") << which;
  }
}

// The parser refuses text that is no JSON; the limit check before it only has to terminate.
TEST(BoundedJson, TextThatIsNoJsonIsRefusedByTheParserInAFewWords) {
  for (const std::string& text :
       {std::string(), std::string("]]]]}}}}"), std::string("\"\\"),
        std::string("{\"a\":\"\xff\"}"), std::string(5000, 'x'), std::string(5000, '"')}) {
    const auto parsed = parse_bounded_json(text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_LT(parsed.error().message.size(), 400u);
  }
}

TEST(BoundedJson, FiftyMegabytesOfNestingCostNothing) {
  const std::string text(50u << 20, '[');
  const ChildOutcome outcome = run_in_child([&] {
    const auto parsed = parse_bounded_json(text);
    return parsed.ok() ? std::string("parsed") : parsed.error().message;
  });
  EXPECT_EQ(outcome.failure, "");
  EXPECT_NE(outcome.output.find("deeper"), std::string::npos);
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
  if (kMeasuresMemory) {
    EXPECT_LT(outcome.peak_bytes, int64_t{64} << 20);
  }
}

}  // namespace
}  // namespace trireme
