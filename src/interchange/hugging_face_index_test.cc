#include "interchange/hugging_face_index.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HuggingFaceIndex, NamesEachFileOnceWhateverStandsAroundAndInWhichOrder) {
  for (const char* text : {
           R"({"metadata":{"total_size":8},"weight_map":{"a":"1.st","b":"2.st","c":"1.st"}})",
           R"({ "weight_map" : {"c":"1.st", "b":"2.st"}, "other" : [1, {"x":null}] } )",
       }) {
    const auto files = parse_hugging_face_index(text);
    ASSERT_TRUE(files.ok()) << files.error().message;
    EXPECT_EQ(*files, (std::set<std::string>{"1.st", "2.st"}));
  }
}

TEST(HuggingFaceIndex, IsRefusedWhereItIsDamagedOrLeadsElsewhere) {
  for (const char* text :
       {"", "{", "[]", R"({"metadata":{}})", R"({"weight_map":{}})", R"({"weight_map":["1.st"]})",
        R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":""}})", R"({"weight_map":{"a":".."}})",
        R"({"weight_map":{"a":"../1.st"}})", R"({"weight_map":{"a":"/etc/1.st"}})",
        R"({"weight_map":{"a":"1\u0000.st"}})", R"({"weight_map":{"a":"1.st","a":"2.st"}})"}) {
    const auto files = parse_hugging_face_index(text);
    ASSERT_FALSE(files.ok()) << text;
    EXPECT_EQ(files.error().kind, ErrorKind::Damaged) << text;
    EXPECT_FALSE(files.error().message.empty()) << text;
  }
}

}  // namespace
}  // namespace trireme
