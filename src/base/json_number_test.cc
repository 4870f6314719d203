#include "base/json_number.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

TEST(JsonNumber, ReadsWhatTheTypeHolds) {
  EXPECT_EQ(whole_number<int>(parse_json("-2147483648")), INT32_MIN);
  EXPECT_EQ(whole_number<int64_t>(parse_json("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(whole_number<int64_t>(parse_json("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(whole_number<uint64_t>(parse_json("18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(whole_number_or(parse_json(R"({"a": 7})"), "a", 1), 7);
  EXPECT_EQ(whole_number_or(parse_json(R"({"a": 7})"), "b", 1), 1);
}

TEST(JsonNumber, RefusesWhatTheTypeDoesNotHold) {
  EXPECT_THROW(whole_number<int>(parse_json("2147483648")), Json::out_of_range);
  EXPECT_THROW(whole_number<int64_t>(parse_json("9223372036854775808")), Json::out_of_range);
  EXPECT_THROW(whole_number<uint64_t>(parse_json("-1")), Json::out_of_range);
  for (const char* text : {"1.5", "1e30", "\"1\"", "null", "true", "[1]"}) {
    EXPECT_THROW(whole_number<int64_t>(parse_json(text)), Json::type_error) << text;
  }
  EXPECT_THROW(whole_number_or(parse_json(R"({"a": 1e30})"), "a", 1), Json::type_error);
}

}  // namespace
}  // namespace trireme
