#include "observe/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "base/file.h"
#include "train/histograms.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// ---- an independent reader that uses nothing of the writer

uint32_t bitwise_crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
  }
  return ~crc;
}
uint32_t mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <typename T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  EXPECT_LE(at + sizeof value, bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = number_at<uint64_t>(file, at);
    EXPECT_EQ(number_at<uint32_t>(file, at + 8), mask(bitwise_crc32c(file.substr(at, 8))));
    const std::string_view data = file.substr(at + 12, length);
    EXPECT_EQ(number_at<uint32_t>(file, at + 12 + length), mask(bitwise_crc32c(data)));
    records.emplace_back(data);
    at += 16 + length;
  }
  return records;
}

// A field of a message: the bits of a varint or fixed number, or bytes.
struct Field {
  uint64_t bits = 0;
  std::string bytes;
};
using Message = std::multimap<int, Field>;

Message parse(std::string_view text) {
  Message message;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text.at(at++));
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < text.size()) {
    const uint64_t key = varint();
    Field field;
    switch (key & 7) {
      case 0:
        field.bits = varint();
        break;
      case 1:
        field.bits = number_at<uint64_t>(text, at);
        at += 8;
        break;
      case 2: {
        const size_t length = varint();
        field.bytes = text.substr(at, length);
        at += length;
        break;
      }
      case 5:
        field.bits = number_at<uint32_t>(text, at);
        at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return message;
    }
    message.emplace(int(key >> 3), field);
  }
  return message;
}
const Field& only(const Message& message, int number) {
  EXPECT_EQ(message.count(number), 1u) << number;
  return message.find(number)->second;
}
double as_double(const Field& field) { return std::bit_cast<double>(field.bits); }

struct Value {
  int64_t step = 0;
  Message message;
};

std::map<std::string, std::vector<Value>> values_of(const std::vector<std::string>& records) {
  std::map<std::string, std::vector<Value>> values;
  for (const std::string& record : records) {
    const Message event = parse(record);
    if (event.count(5) == 0) continue;
    const int64_t step = event.count(2) > 0 ? int64_t(only(event, 2).bits) : 0;
    const Message summary = parse(only(event, 5).bytes);
    for (const auto& [number, field] : summary) {
      Message value = parse(field.bytes);
      const std::string tag = only(value, 1).bytes;
      values[tag].push_back({step, std::move(value)});
    }
  }
  return values;
}
float scalar(const Value& value) {
  return std::bit_cast<float>(uint32_t(only(value.message, 2).bits));
}

class TensorBoard : public testing::Test {
 protected:
  TensorBoard()
      : folder_((fs::temp_directory_path() / ("trireme_events." + std::to_string(::getpid())))
                    .string()) {
    fs::create_directories(folder_);
  }
  ~TensorBoard() override { fs::remove_all(folder_); }

  TensorBoardFile create(int64_t step = 0) const {
    auto file = TensorBoardFile::create({folder_, "a/host", step, "[run]\nsteps = 3\n"});
    EXPECT_TRUE(file.ok()) << file.error().message;
    return std::move(*file);
  }
  std::vector<std::string> records() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    EXPECT_EQ(fs::path(files.at(0)).filename().string().rfind("events.out.tfevents.", 0), 0u);
    return records_of(read_text_file(files.at(0)).value());
  }

  std::string folder_;
};

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// The bytes that protoc and TensorFlow's record writer make of the same events.
TEST(TfRecord, HasTheBytesOfTheReference) {
  ProtoWriter version;
  version.fixed64(1, 1.5);
  version.bytes(3, "brain.Event:2");
  std::string file;
  append_tf_record(file, version.text());
  EXPECT_EQ(hex(file),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");

  ProtoWriter value, summary, event;
  value.bytes(1, "train/loss");
  value.fixed32(2, 2.5f);
  summary.bytes(1, value.text());
  event.fixed64(1, 1.5);
  event.varint(2, 300);
  event.bytes(5, summary.text());
  file.clear();
  append_tf_record(file, event.text());
  EXPECT_EQ(hex(file),
            "2100000000000000017becf609000000000000f83f10ac022a130a110a0a747261696e2f6c6f7373150000"
            "2040b4ca3a3b");
}

TEST_F(TensorBoard, ScalarsStandAtTheirStepsWithTheirValues) {
  {
    TensorBoardFile file = create();
    for (int64_t step = 1; step <= 200; ++step) {
      StepReport report;
      report.step = step;
      report.loss = 5.0 / double(step);
      report.lr = 1e-3;
      file.on_step(report);
    }
    EvalReport eval;
    eval.step = 200;
    eval.val_loss = std::numeric_limits<double>::quiet_NaN();
    file.on_eval(eval);
  }
  const auto all = records();
  EXPECT_EQ(only(parse(all.at(0)), 3).bytes, "brain.Event:2");
  const auto values = values_of(all);
  ASSERT_EQ(values.at("train/loss").size(), 200u);
  for (int64_t step = 1; step <= 200; ++step) {
    const Value& value = values.at("train/loss")[size_t(step - 1)];
    EXPECT_EQ(value.step, step);
    EXPECT_EQ(scalar(value), float(5.0 / double(step)));
  }
  EXPECT_TRUE(std::isnan(scalar(values.at("val/loss").at(0))));
  EXPECT_EQ(values.count("val/bits_per_byte"), 0u);
}

TEST_F(TensorBoard, ExpertsHaveTheirLoads) {
  // Two layers of three experts; the last number of each layer counts dropped visits.
  const std::vector<int64_t> loads = {4, 2, 0, 1, 2, 2, 2, 0};
  {
    TensorBoardFile file = create();
    StepReport report;
    report.step = 3;
    report.expert_loads = loads;
    report.num_experts = 3;
    report.aux_loss = 1.5;
    file.on_step(report);
  }
  const auto values = values_of(records());
  EXPECT_EQ(scalar(values.at("experts/max_over_mean").at(0)), 2.0f);
  EXPECT_EQ(scalar(values.at("experts/dropped_visits").at(0)), 1.0f);
  EXPECT_EQ(scalar(values.at("experts/aux_loss").at(0)), 1.5f);
  EXPECT_EQ(values.count("experts/z_loss"), 0u);
  const double shares[] = {6.0 / 12.0, 4.0 / 12.0, 2.0 / 12.0};
  for (int expert = 0; expert < 3; ++expert) {
    const std::string tag = "experts/share_0" + std::to_string(expert);
    EXPECT_EQ(scalar(values.at(tag).at(0)), float(shares[expert])) << tag;
  }
}

TEST_F(TensorBoard, TextIsUtf8WhateverWasSampled) {
  {
    TensorBoardFile file = create();
    file.on_sample({7, "so \xe2\x82\xac\nor \xff"});
  }
  const auto values = values_of(records());
  const Value& sample = values.at("sample").at(0);
  EXPECT_EQ(sample.step, 7);
  const Message tensor = parse(only(sample.message, 8).bytes);
  EXPECT_EQ(only(tensor, 1).bits, 7u);  // DT_STRING
  EXPECT_EQ(only(tensor, 8).bytes, "    so \xe2\x82\xac\n    or \xef\xbf\xbd");
  const Message plugin = parse(only(parse(only(sample.message, 9).bytes), 1).bytes);
  EXPECT_EQ(only(plugin, 1).bytes, "text");
  EXPECT_NE(only(parse(only(values.at("configuration").at(0).message, 8).bytes), 8)
                .bytes.find("steps = 3"),
            std::string::npos);
}

TEST_F(TensorBoard, AResumedRunSaysWhatItReplaces) {
  create(40);
  const Message event = parse(records().at(1));
  EXPECT_EQ(only(event, 2).bits, 41u);
  EXPECT_EQ(only(parse(only(event, 7).bytes), 1).bits, 1u);  // START
}

// A run that is killed repeatedly has one file, and the file contains only whole records.
TEST_F(TensorBoard, LivesOfARunShareAFileThatIsCutBehindItsLastWholeRecord) {
  for (int64_t life = 0; life < 4; ++life) {
    {
      TensorBoardFile file = create(10 * life);
      StepReport report;
      report.step = 10 * life + 1;
      report.loss = double(life);
      file.on_step(report);
    }
    const std::string path = fs::directory_iterator(folder_)->path();
    const std::string text = read_text_file(path).value();
    const std::string torn = text.substr(0, size_t(7 + 9 * life));  // a part of the next record
    ASSERT_TRUE(write_file_atomically(path, text + torn).ok());
  }
  create(40);
  const auto all = records();
  const auto values = values_of(all);
  ASSERT_EQ(values.at("train/loss").size(), 4u);
  for (size_t life = 0; life < 4; ++life) {
    EXPECT_EQ(values.at("train/loss")[life].step, int64_t(10 * life + 1));
    EXPECT_EQ(scalar(values.at("train/loss")[life]), float(life));
  }
  std::vector<uint64_t> starts;
  for (const std::string& record : all) {
    const Message event = parse(record);
    if (event.count(7) > 0) starts.push_back(only(event, 2).bits);
  }
  EXPECT_EQ(starts, (std::vector<uint64_t>{11, 21, 31, 41}));
}

TEST_F(TensorBoard, FilesWithoutARecordGoAndALinkIsLeftAlone) {
  for (const char* name : {"0000000001.a.1.1", "0000000002.a.1.1", "9999999998.a.1.1"}) {
    ASSERT_TRUE(write_file_atomically(folder_ + "/events.out.tfevents." + name, "").ok());
  }
  ASSERT_TRUE(write_file_atomically(folder_ + "/target", "kept").ok());
  const std::string link = folder_ + "/events.out.tfevents.9999999999.a.1.1";
  fs::create_symlink("target", link);
  create();
  create(5);
  EXPECT_EQ(read_text_file(folder_ + "/target").value(), "kept");
  fs::remove(link);
  fs::remove(folder_ + "/target");
  EXPECT_EQ(records().size(), 4u);  // version, configuration; START, configuration
}

TEST_F(TensorBoard, HistogramsHoldEveryElementOnce) {
  std::vector<float> elements = {0.0f, -0.0f, 1e-13f, -1e-13f, 1e30f, -1e30f, INFINITY, NAN};
  for (int i = -500; i < 500; ++i) elements.push_back(float(i) * 0.013f);
  HistogramCounter first, second;
  const std::span<const float> all(elements);
  first.add(all.subspan(0, 300), 2.0);
  second.add(all.subspan(300), 2.0);
  HistogramCounter sum = HistogramCounter::parse(first.text());
  sum.add(HistogramCounter::parse(second.text()));
  {
    TensorBoardFile file = create();
    file.on_histograms({3, {sum.histogram("w")}, {}});
  }
  const auto values = values_of(records());
  const Message histogram = parse(only(values.at("weights/w").at(0).message, 5).bytes);
  EXPECT_EQ(as_double(only(histogram, 3)), double(elements.size() - 2));
  EXPECT_EQ(as_double(only(histogram, 1)), 2.0 * double(-1e30f));
  EXPECT_EQ(as_double(only(histogram, 2)), 2.0 * double(1e30f));
  const std::string& limits = only(histogram, 6).bytes;
  const std::string& counts = only(histogram, 7).bytes;
  ASSERT_EQ(limits.size(), counts.size());
  double before = -INFINITY;
  for (size_t i = 0; i < limits.size(); i += 8) {
    const auto limit = number_at<double>(limits, i);
    EXPECT_GT(limit, before);
    double expected = 0.0;
    for (const float element : elements) {
      const double value = 2.0 * double(element);
      if (std::isfinite(value) && value > before && value <= limit) ++expected;
    }
    EXPECT_EQ(number_at<double>(counts, i), expected) << "up to " << limit;
    before = limit;
  }
}

}  // namespace
}  // namespace trireme
