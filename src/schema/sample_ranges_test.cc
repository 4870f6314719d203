#include "schema/sample_ranges.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme {
namespace {

TEST(SampleRanges, AreReadWithTheirFirstAndLastSample) {
  EXPECT_TRUE(parse_sample_ranges("").value().empty());
  EXPECT_EQ(parse_sample_ranges("28-31,96").value(), (std::vector<SampleRange>{{28, 4}, {96, 1}}));
}

TEST(SampleRanges, AreRefusedIfTheyAreNone) {
  std::string many = "1";
  for (size_t i = 0; i < kMostSampleRanges; ++i) many += ",1";
  for (const std::string& text :
       {std::string("a"), std::string("1-"), std::string("-1"), std::string("5-4"),
        std::string("1,"), std::string(",1"), std::string("1 2"),
        std::string("99999999999999999999"), std::string("0-2305843009213693952"), many}) {
    EXPECT_FALSE(parse_sample_ranges(text).ok()) << text.substr(0, 30);
  }
}

}  // namespace
}  // namespace trireme
