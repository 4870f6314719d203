#include "data/json_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/philox.h"

namespace trireme {
namespace {

// Returns the text under "text", or "error: " and the message.
std::string read(const std::string& line, int64_t* replaced = nullptr) {
  std::string text = "before ";
  int64_t num_replaced = 0;
  const auto status = append_json_string(line, "text", text, num_replaced);
  if (replaced != nullptr) *replaced = num_replaced;
  if (!status.ok()) {
    EXPECT_EQ(text, "before ");
    return "error: " + status.error().message;
  }
  EXPECT_EQ(text.substr(0, 7), "before ");
  return text.substr(7);
}

TEST(JsonLines, ReadsTheField) {
  EXPECT_EQ(read(R"({"text":"abc"})"), "abc");
  EXPECT_EQ(read(R"( { "a" : [1, {"text":"no"}, -2.5e+3], "text" : "yes" , "b":null} )"), "yes");
  EXPECT_EQ(read(R"({"text":"\"\\\/\b\f\n\r\t"})"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read(R"({"text":"\u0041\u00e9\u4E2D\ud83d\ude00"})"),
            "A\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80");
  EXPECT_EQ(read("{\"text\":\"caf\xE9\"}"), "caf\xE9") << "bytes that are not UTF-8 are kept";
  EXPECT_EQ(read(R"({"text":""})"), "");
  EXPECT_EQ(read(R"({"text":"a","text":"b"})"), "b");
  EXPECT_EQ(read(R"({"t\u0065xt":"a"})"), "a");
}

TEST(JsonLines, HalvesOfPairsAreReplacedAndCounted) {
  int64_t replaced = 0;
  EXPECT_EQ(read(R"({"text":"a\ud83db"})", &replaced),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(replaced, 1);
  EXPECT_EQ(read(R"({"text":"\ud83d\u0041\ude00"})", &replaced),
            "\xEF\xBF\xBD"
            "A\xEF\xBF\xBD");
  EXPECT_EQ(replaced, 2);
}

TEST(JsonLines, ErrorsNameTheByteAndTheField) {
  EXPECT_NE(read(R"({"content":"x","id":7})").find("\"content\""), std::string::npos);
  EXPECT_NE(read(R"({"text":7})").find("not a string"), std::string::npos);
  EXPECT_NE(read(R"({"text":"a)").find("ends in a string"), std::string::npos);
  EXPECT_EQ(read(R"({"text" "a"})"), "error: byte 8: expected ':'");
  std::string deep(100000, '[');
  EXPECT_NE(read(deep).find("expected '{'"), std::string::npos);
  deep.insert(0, "{\"a\":");
  EXPECT_NE(read(deep).find("too deeply"), std::string::npos);
}

// Compares with nlohmann's parser as oracle, on valid lines with one byte changed, removed or
// repeated.
TEST(JsonLines, AcceptsWhatAnotherParserAccepts) {
  const std::vector<std::string> seeds = {
      R"({"text":"ab\n\u00e9c\\","n":[1,-2.5e3 ,0,{"x":null}],"t":true,"f":false})",
      R"( {"n":{"text":"in","a":[[],{}]},"text":"out \ud83d\ude00" } )",
      R"({"text":"","e":[0.5,1E9 ,-0,"\"\/"]})"};
  int64_t accepted = 0, refused = 0;
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    const PhiloxCounter random = philox(RngKey{1}, counter_of(trial, 0));
    std::string line = seeds[trial % seeds.size()];
    static constexpr char kBytes[] = "{}[]\",:\\0159eE+-. tfnu/x";
    const size_t place = random[0] % line.size();
    if (random[1] % 3 == 0) line[place] = kBytes[random[2] % (sizeof kBytes - 1)];
    if (random[1] % 3 == 1) line.erase(place, 1);
    if (random[1] % 3 == 2) line.insert(place, 1, kBytes[random[2] % (sizeof kBytes - 1)]);
    int64_t replaced = 0;
    const std::string ours = read(line, &replaced);
    if (replaced > 0) continue;  // the other parser refuses it
    const auto json = parse_json_or_discard(line);
    const bool is_valid = json.is_object() && json.contains("text") && json["text"].is_string();
    const std::string expected = is_valid ? json["text"].get<std::string>() : "error: ";
    ASSERT_EQ(is_valid ? ours : ours.substr(0, 7), expected) << line << "\n" << ours;
    is_valid ? ++accepted : ++refused;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace trireme
