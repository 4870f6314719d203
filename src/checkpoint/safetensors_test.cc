#include "checkpoint/safetensors.h"

#include <cstring>
#include <random>
#include <span>

#include "base/hash.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/safetensors_writer.h"

namespace trireme {
namespace {

std::string file_of(const std::string& json, size_t data_bytes) {
  std::string bytes(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)),
                                  static_cast<int64_t>(file.size()));
}

TEST(Safetensors, LegalHeadersAreRead) {
  struct Case {
    const char* json;
    size_t data_bytes;
    size_t num_tensors;
  };
  for (const Case& c : std::vector<Case>{
           {R"({})", 0, 0},
           {R"( {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )", 8, 1},
           {R"({"__metadata__":null,"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1, 1},
           {R"({"__metadata__":{"format":"pt","x":null}})", 0, 0},
           {R"({"a":{"dtype":"F64","shape":[0,5],"data_offsets":[0,0]}})", 0, 1},
           {R"({"b":{"dtype":"F16","shape":[1],"data_offsets":[2,4]},)"
            R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})",
            4, 2},
           {R"({"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]}})", 3, 1},
           {R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})", 3, 1},
           {R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3, 1},
           {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,2],"data_offsets":[0,2]}})", 2, 1},
       }) {
    const auto header = parse(file_of(c.json, c.data_bytes));
    ASSERT_TRUE(header.ok()) << c.json << message_of(header);
    EXPECT_EQ(header->tensors.size(), c.num_tensors);
    EXPECT_EQ(header->data_offset, int64_t(8 + std::strlen(c.json)));
  }
}

TEST(Safetensors, EveryRuleOfTheFormatIsEnforcedAndNamed) {
  struct Case {
    const char* json;
    size_t data_bytes;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {R"([])", 0, "not an object"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8, "not JSON"},
           {R"({"a":1})", 0, "not an object"},
           {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "no key \"dtype\""},
           {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8, "no key \"shape\""},
           {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "no key \"data_offsets\""},
           {R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype"},
           {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "not a count"},
           {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "not a count"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "not two numbers"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7, "take 8 bytes"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "take 8 bytes"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "appended"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "truncated"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "behind a hole"},
           {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
            7, "inside the tensor before it"},
           {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
            4, "inside the tensor before it"},
           {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
            2, "the key \"a\" twice"},
           {R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1, "twice"},
           {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "twice"},
           {R"({"__metadata__":{"a":1}})", 0, "__metadata__.a: not a string"},
           {R"({"__metadata__":[]})", 0, "__metadata__: not an object"},
           {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, "no whole bytes"},
           {R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
            "more than 2^63 bits"},
           {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0,
            "not a count"},
           {R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,0]}})", 0,
            "not a count"},
           {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "not JSON"},
           {R"({"a":[[[[[[]]]]]]})", 0, "deeper than 4"},
       }) {
    const auto header = parse(file_of(c.json, c.data_bytes));
    ASSERT_FALSE(header.ok()) << c.json;
    EXPECT_EQ(header.error().kind, ErrorKind::Damaged);
    EXPECT_NE(header.error().message.find(c.message), std::string::npos)
        << c.json << ": " << header.error().message;
  }
}

TEST(Safetensors, LengthsBeyondTheFileOrTheLimitAreRefused) {
  for (uint64_t length : {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}}) {
    std::string file(10, ' ');
    std::memcpy(file.data(), &length, sizeof length);
    EXPECT_FALSE(parse(file).ok()) << length;
  }
  for (size_t size = 0; size < 8; ++size) EXPECT_FALSE(parse(std::string(size, '\0')).ok());
}

using SafetensorsFileTest = FolderTest;

TEST_F(SafetensorsFileTest, WhatIsStreamedInAnyPiecesReadsBackAlignedWithItsChecksums) {
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<SafetensorsSpec> specs = {
        {"scalar", DType::F64, Shape{}},      {"wide", DType::BF16, Shape{3, 1000}},
        {"empty", DType::F32, Shape{0, 4}},   {"bytes", DType::U8, Shape{17}},
        {"w", DType::F32, Shape{2, 3, 4, 5}}, {"last", DType::I64, Shape{0}}};
    if (seed % 2 == 1) std::sort(specs.begin(), specs.end(), precedes_in_safetensors);
    std::string data;
    for (const SafetensorsSpec& spec : specs) {
      for (int64_t i = 0; i < spec.bytes(); ++i) data += static_cast<char>(random());
    }
    const std::string path = root() + "/a.safetensors";
    auto writer = SafetensorsWriter::create(path, specs, {{"note", "any \"text\""}});
    ASSERT_TRUE(writer.ok());
    std::span<const std::byte> rest = std::as_bytes(std::span(data));
    for (const SafetensorsSpec& spec : specs) {
      auto tensor = rest.first(static_cast<size_t>(spec.bytes()));
      rest = rest.subspan(tensor.size());
      while (!tensor.empty()) {
        const size_t size = 1 + random() % tensor.size();
        ASSERT_TRUE(writer->write(tensor.first(size)).ok());
        tensor = tensor.subspan(size);
      }
    }
    const auto written = writer->finish();
    ASSERT_TRUE(written.ok()) << message_of(written);

    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file.ok()) << message_of(file);
    EXPECT_EQ(file->header().data_offset % 64, 0);
    EXPECT_EQ(file->header().metadata.at("format"), "pt");
    EXPECT_EQ(file->header().metadata.at("note"), "any \"text\"");
    EXPECT_EQ(written->bytes, file->bytes());
    EXPECT_EQ(written->header_checksum, file->header_checksum());
    std::string_view expected = data;
    for (size_t index = 0; index < specs.size(); ++index) {
      const SafetensorsEntry* entry = file->header().find(specs[index].name);
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(entry->dtype, specs[index].dtype);
      EXPECT_TRUE(std::ranges::equal(entry->extents, specs[index].shape.extents()));
      std::vector<std::byte> bytes(static_cast<size_t>(entry->end - entry->begin));
      ASSERT_TRUE(file->read(*entry, 0, bytes).ok());
      const auto tensor = expected.substr(0, bytes.size());
      expected.remove_prefix(bytes.size());
      EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(tensor))));
      EXPECT_EQ(written->checksums[index], hash64(tensor));
      EXPECT_EQ(written->offsets[index], file->header().data_offset + entry->begin);
    }
  }
}

TEST_F(SafetensorsFileTest, AWriterThatIsNotFinishedLeavesNoFile) {
  {
    auto writer = SafetensorsWriter::create(root() + "/a", {{"w", DType::F32, Shape{2}}}, {});
    ASSERT_TRUE(writer.ok());
    EXPECT_THROW(static_cast<void>(writer->finish()), ContractError);
    std::byte bytes[9];
    EXPECT_THROW(static_cast<void>(writer->write(bytes)), ContractError);
  }
  EXPECT_TRUE(std::filesystem::is_empty(root()));
  EXPECT_THROW(static_cast<void>(SafetensorsWriter::create(
                   root() + "/a", {{"w", DType::F32, Shape{2}}, {"w", DType::F32, Shape{2}}}, {})),
               ContractError);
}

}  // namespace
}  // namespace trireme
