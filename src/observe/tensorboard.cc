#include "observe/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "train/expert_load.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Field numbers of tensorflow.Event, Summary, Summary.Value, SummaryMetadata, HistogramProto and
// TensorProto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum ValueField { kTag = 1, kSimpleValue = 2, kHisto = 5, kTensor = 8, kMetadata = 9 };
enum HistogramField {
  kMin = 1,
  kMax = 2,
  kNum = 3,
  kSum = 4,
  kSumSquares = 5,
  kBucketLimit = 6,
  kBucket = 7
};
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr int kSessionStart = 1;  // SessionLog.status
constexpr int kStringType = 7;    // DT_STRING

// With more experts than this, their shares are only in metrics.jsonl.
constexpr int64_t kMostScalarShares = 64;
constexpr size_t kMostScalarRanks = 64;

// TFRecords store CRCs masked, because a file of records may itself contain CRCs.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void append_le(std::string& text, uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) text += char(value >> (8 * i));
}

// Protocol buffers allow only UTF-8, but sampled bytes may be invalid. The JSON library replaces
// the invalid bytes.
std::string valid_utf8(std::string_view text) {
  using Json = nlohmann::json;
  return parse_json(lenient_json_text(Json(text)));
}

uint64_t read_le(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | uint8_t(bytes[i]);
  return value;
}

// Length of the whole records at the start of the file. A crash may have cut the last one.
int64_t whole_records(const InputFile& file) {
  std::string record;
  const auto read = [&](int64_t offset, uint64_t bytes) {
    if (bytes > uint64_t(file.bytes() - offset)) return false;
    record.resize(bytes);
    return file.read(offset, std::as_writable_bytes(std::span(record))).ok();
  };
  const auto has_crc_behind = [&](size_t bytes) {
    const std::string_view text = record;
    return read_le(text.substr(bytes, 4)) == masked_crc(text.substr(0, bytes));
  };
  int64_t end = 0;
  while (read(end, 12) && has_crc_behind(8)) {
    const uint64_t length = read_le(std::string_view(record).substr(0, 8));
    if (length > uint64_t(file.bytes()) || !read(end + 12, length + 4)) break;
    if (!has_crc_behind(length)) break;
    end += int64_t(length) + 16;
  }
  return end;
}

// Returns the newest event file of earlier starts of the run, cut after its last whole record,
// because a reader stops for good at a broken one. Returns "" if no file holds records. Removes
// empty files.
std::string newest_events(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool is_events = entry->path().filename().string().starts_with(kPrefix);
    if (is_events && fs::is_regular_file(entry->symlink_status(error))) {
      files.push_back(entry->path());
    }
  }
  std::erase_if(files, [&](const fs::path& path) {
    return fs::is_empty(path, error) && fs::remove(path, error);
  });
  if (files.empty()) return "";
  const std::string newest = std::max_element(files.begin(), files.end())->string();
  const auto file = InputFile::open(newest);
  const int64_t bytes = file.ok() ? whole_records(*file) : 0;
  if (bytes > 0) fs::resize_file(newest, uintmax_t(bytes), error);
  return bytes > 0 && !error ? newest : "";
}

// TensorBoard reads files in the order of their names. The fraction of the second keeps two starts
// in one second apart.
std::string new_path(const TensorBoardFile::Start& start, double now) {
  std::string host;
  for (const char c : start.host) host += c == '/' ? '_' : c;
  return fmt::format("{}/{}{:010d}.{}.{}.{:06d}", start.folder, kPrefix, int64_t(now), host,
                     ::getpid(), int64_t((now - double(int64_t(now))) * 1e6));
}

}  // namespace

void append_tf_record(std::string& file, std::string_view data) {
  const size_t begin = file.size();
  append_le(file, data.size(), 8);
  append_le(file, masked_crc(std::string_view(file).substr(begin, 8)), 4);
  file += data;
  append_le(file, masked_crc(data), 4);
}

Result<TensorBoardFile> TensorBoardFile::create(const Start& start) {
  const double now = unix_time_s();
  const std::string former = newest_events(start.folder);
  TRIREME_TRY(file,
              former.empty() ? AppendFile::create(new_path(start, now)) : AppendFile::open(former));
  TensorBoardFile events(std::move(file));
  if (former.empty()) {
    events.event_.fixed64(kWallTime, now);
    events.event_.bytes(kFileVersion, "brain.Event:2");
    events.write_event(events.event_);
  }
  if (!former.empty() || start.step > 0) {
    ProtoWriter log;
    log.varint(1, kSessionStart);
    events.event_.clear();
    events.event_.fixed64(kWallTime, now);
    // Later events of earlier starts are dropped from here on.
    events.event_.varint(kStep, uint64_t(start.step + 1));
    events.event_.bytes(kSessionLog, log.text());
    events.write_event(events.event_);
  }
  events.add_text("configuration", "```toml\n" + start.configuration + "```\n");
  events.write_summary(start.step);
  return events;
}

void TensorBoardFile::add_scalar(std::string_view tag, double value) {
  value_.clear();
  value_.bytes(kTag, tag);
  value_.fixed32(kSimpleValue, float(value));
  summary_.bytes(1, value_.text());
}

void TensorBoardFile::add_text(std::string_view tag, std::string_view text) {
  ProtoWriter plugin, metadata, dim, shape, tensor;
  plugin.bytes(1, "text");
  metadata.bytes(1, plugin.text());
  dim.varint(1, 1);
  shape.bytes(2, dim.text());
  tensor.varint(1, kStringType);
  tensor.bytes(2, shape.text());
  tensor.bytes(8, valid_utf8(text));
  value_.clear();
  value_.bytes(kTag, tag);
  value_.bytes(kTensor, tensor.text());
  value_.bytes(kMetadata, metadata.text());
  summary_.bytes(1, value_.text());
}

void TensorBoardFile::add_histogram(std::string_view tag, const TensorHistogram& histogram) {
  ProtoWriter buckets;
  buckets.fixed64(kMin, histogram.min);
  buckets.fixed64(kMax, histogram.max);
  buckets.fixed64(kNum, double(histogram.num));
  buckets.fixed64(kSum, histogram.sum);
  buckets.fixed64(kSumSquares, histogram.sum_squares);
  buckets.packed(kBucketLimit, histogram.limits);
  buckets.packed(kBucket, histogram.counts);
  value_.clear();
  value_.bytes(kTag, tag);
  value_.bytes(kHisto, buckets.text());
  summary_.bytes(1, value_.text());
}

void TensorBoardFile::write_summary(int64_t step) {
  event_.clear();
  event_.fixed64(kWallTime, unix_time_s());
  event_.varint(kStep, uint64_t(step));
  event_.bytes(kSummary, summary_.text());
  write_event(event_);
  summary_.clear();
}

void TensorBoardFile::write_event(const ProtoWriter& event) {
  record_.clear();
  append_tf_record(record_, event.text());
  file_.append(record_);
}

void TensorBoardFile::add_experts(const StepReport& report) {
  const ExpertLoad load = expert_load(report.expert_loads, report.num_experts);
  add_scalar("experts/max_over_mean", load.max_over_mean);
  add_scalar("experts/dropped_visits", double(load.dropped));
  if (report.aux_loss) add_scalar("experts/aux_loss", *report.aux_loss);
  if (report.z_loss) add_scalar("experts/z_loss", *report.z_loss);
  if (report.num_experts > kMostScalarShares) return;
  for (int64_t expert = 0; expert < report.num_experts; ++expert) {
    char tag[32];
    const auto end = fmt::format_to_n(tag, sizeof tag, "experts/share_{:02}", expert);
    add_scalar({tag, end.size}, expert_share(report.expert_loads, report.num_experts, expert));
  }
}

void TensorBoardFile::on_step(const StepReport& report) {
  add_scalar("train/loss", report.loss);
  add_scalar("train/lr", report.lr);
  add_scalar("train/grad_norm", report.grad_norm);
  if (report.noise_scale) add_scalar("train/noise_scale", *report.noise_scale);
  if (report.mtp_loss) add_scalar("train/mtp_loss", *report.mtp_loss);
  if (report.max_logit) add_scalar("train/max_logit", *report.max_logit);
  add_scalar("speed/tokens_per_s", report.tokens_per_s);
  add_scalar("speed/step_s", report.step_s);
  add_scalar("speed/mfu", report.mfu);
  if (report.step_s > 0.0) add_scalar("speed/exposed_comm", report.exposed_comm_s / report.step_s);
  if (report.epoch) add_scalar("train/epoch", *report.epoch);
  if (report.peak_bytes > 0) add_scalar("memory/peak_bytes", double(report.peak_bytes));
  if (saved_time_s_ > 0.0) add_scalar("checkpoint/age_s", unix_time_s() - saved_time_s_);
  if (report.num_experts > 0) add_experts(report);
  write_summary(report.step);
}

void TensorBoardFile::on_eval(const EvalReport& report) {
  add_scalar("val/loss", report.val_loss);
  if (report.bits_per_byte > 0.0) add_scalar("val/bits_per_byte", report.bits_per_byte);
  if (report.best_step >= 0) add_scalar("val/best_loss", report.best_loss);
  write_summary(report.step);
}

void TensorBoardFile::on_checkpoint(const CheckpointReport&) { saved_time_s_ = unix_time_s(); }

void TensorBoardFile::on_ranks(int64_t step, std::span<const RankTimes> ranks) {
  for (size_t rank = 0; rank < ranks.size() && rank < kMostScalarRanks; ++rank) {
    const auto add = [&](const char* what, double value) {
      char tag[40];
      const auto end = fmt::format_to_n(tag, sizeof tag, "ranks/{}/{:02}", what, rank);
      add_scalar({tag, end.size}, value);
    };
    add("compute_s", ranks[rank].compute_s);
    add("exposed_comm_s", ranks[rank].exposed_comm_s);
    add("bubble_s", ranks[rank].bubble_s);
    add("peak_bytes", double(ranks[rank].peak_bytes));
  }
  write_summary(step);
}

// Indents the text, so that Markdown shows it unchanged.
void TensorBoardFile::on_sample(const SampleReport& report) {
  std::string shown = "    ";
  for (const char c : report.text) {
    shown += c;
    if (c == '\n') shown += "    ";
  }
  add_text("sample", shown);
  write_summary(report.step);
}

void TensorBoardFile::on_histograms(const HistogramReport& report) {
  for (const TensorHistogram& one : report.weights) add_histogram("weights/" + one.name, one);
  for (const TensorHistogram& one : report.grads) add_histogram("gradients/" + one.name, one);
  write_summary(report.step);
}

}  // namespace trireme
