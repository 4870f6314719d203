// A tokenizer's file that is made to cost much is refused soon, in little memory, with its reason.

#include <gtest/gtest.h>

#include "base/bounded_child.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

constexpr int64_t kExtraBytes = int64_t{64} << 20;

TEST(CraftedTokenizer, NestingAndMillionsOfValuesAreRefused) {
  for (const std::string& text : {std::string(50u << 20, '['), "[" + std::string(50u << 20, ',')}) {
    const ChildOutcome outcome = run_in_child([&] {
      const auto tokenizer = parse_tokenizer(text);
      return tokenizer.ok() ? std::string("read") : tokenizer.error().message;
    });
    EXPECT_EQ(outcome.failure, "");
    EXPECT_NE(outcome.output.find("such files are refused"), std::string::npos) << outcome.output;
    EXPECT_LT(outcome.seconds, kParserDeadlineS);
    if (kMeasuresMemory) {
      EXPECT_LT(outcome.peak_bytes, kExtraBytes);
    }
  }
}

}  // namespace
}  // namespace trireme
