// Tests files that are crafted to be expensive: each is refused quickly, in little memory, with a
// reason.

#include <fmt/format.h>

#include <cstring>

#include "base/bounded_child.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/input_limits.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"

namespace trireme {
namespace {

constexpr int64_t kExtraBytes = int64_t{64} << 20;

std::string with_length(const std::string& json) {
  std::string bytes(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json;
}

std::string header_of(int64_t num_tensors, const std::string& last) {
  std::string json = "{";
  for (int64_t i = 0; i < num_tensors; ++i) {
    json += fmt::format("\"t{:07}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{},{}]}},",
                        i, i, i + 1);
  }
  return with_length(json + last + "}");
}

std::string parse_file(const std::string& file, int64_t data_bytes) {
  const auto header = parse_safetensors_header(std::as_bytes(std::span(file)),
                                               static_cast<int64_t>(file.size()) + data_bytes);
  return header.ok() ? fmt::format("{} tensors", header->tensors.size()) : header.error().message;
}

void expect_refused(const std::string& file, int64_t data_bytes, const std::string& message) {
  const ChildOutcome outcome = run_in_child([&] { return parse_file(file, data_bytes); });
  EXPECT_EQ(outcome.failure, "");
  EXPECT_NE(outcome.output.find(message), std::string::npos) << outcome.output.substr(0, 300);
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
  if (kMeasuresMemory) {
    EXPECT_LT(outcome.peak_bytes, kExtraBytes + static_cast<int64_t>(file.size())) << message;
  }
}

TEST(CraftedSafetensors, TimeAndMemoryGrowWithTheHeader) {
  expect_refused(
      header_of(32000, "\"z\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[32000,32001]}"),
      32001, "32001 tensors");
  expect_refused(header_of(limits::kTensors - 1, "\"z\":7"), 0, "not an object");
  expect_refused(header_of(1000000, "\"z\":7"), 1000000, "more than 262144 tensors");
}

TEST(CraftedSafetensors, OneEntryMayNotHoldMillionsOfValues) {
  std::string numbers(12000000, '1');
  for (size_t i = 1; i < numbers.size(); i += 2) numbers[i] = ',';
  expect_refused(with_length("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + numbers + "1]}}"), 0,
                 "has more than 1048576 values");
  expect_refused(with_length("{\"a\":\"" + std::string(90u << 20, 'x') + "\"}"), 0,
                 "a string or number of more than");
  expect_refused(with_length("{\"a\":" + std::string(90u << 20, '[')), 0, "deeper than 4");
}

TEST(CraftedSafetensors, NamesAreFoundAndNoneComesTwice) {
  const std::string last =
      "\"t0000005\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[20000,20001]}";
  expect_refused(header_of(20000, last), 20001, "the key \"t0000005\" twice");
  const std::string file = header_of(3000, last);
  const auto header = parse_safetensors_header(std::as_bytes(std::span(file)), 0);
  EXPECT_FALSE(header.ok());
}

std::string sealed(const std::string& body) {
  return body + ",\n\"checksum\":\"" + hex64(hash64(body)) + "\"}\n";
}

TEST(CraftedIndex, ManyEntriesAreReadInTimeThatGrowsWithThem) {
  std::string body =
      "{\"format\":\"trireme-checkpoint\",\"version\":1,\"step\":1,\"next_sample\":1,"
      "\"tokens_seen\":1,\"seed\":\"0000000000000000\",\"data_identity\":\"\",\"optimizer\":\"\","
      "\"optimizer_scalars\":{},\"attached\":{},\"shards\":{\"s\":{\"bytes\":1000000,"
      "\"checksum\":\"0000000000000000\"}},\"tensors\":{";
  for (int i = 0; i < 60000; ++i) {
    body += fmt::format(
        "{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[1],\"slices\":[{{\"file\":\"s\",\"offset\":{},"
        "\"checksum\":\"0000000000000000\",\"range\":[0,1]}}]}}",
        i == 0 ? "" : ",", i, i);
  }
  const std::string text = sealed(body + "}");
  const ChildOutcome outcome = run_in_child([&] {
    const auto index = parse_index(text);
    return index.ok() ? fmt::format("{} tensors", index->contents.tensors.size())
                      : index.error().message;
  });
  EXPECT_EQ(outcome.output, "60000 tensors");
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
  if (kMeasuresMemory) {
    EXPECT_LT(outcome.peak_bytes, kExtraBytes + int64_t(text.size()));
  }
}

// These are boxes of columns: the hull of each spans the whole tensor, so all pairs are compared.
TEST(CraftedIndex, SlicesThatAllMustBeComparedHaveALimit) {
  IndexPart part;
  part.shards["s"] = {.bytes = 1 << 20};
  StoredTensor& tensor = part.tensors["t"];
  tensor = {DType::U8, Shape{2, 20000}, {}};
  for (int64_t i = 0; i < 20000; ++i) {
    tensor.slices.push_back({.slice = Slice::box({0, i}, {2, 1}), .file = "s", .offset = 2 * i});
  }
  const std::string text = print_index_part(part);
  const ChildOutcome outcome = run_in_child([&] {
    CheckpointIndex index;
    index.contents = *parse_index_part(text);
    const auto read = parse_index(print_index(index));
    return read.ok() ? std::string("read") : read.error().message;
  });
  EXPECT_NE(outcome.output.find("more slices than can be compared"), std::string::npos)
      << outcome.output;
  EXPECT_LT(outcome.seconds, kParserDeadlineS);
}

}  // namespace
}  // namespace trireme
