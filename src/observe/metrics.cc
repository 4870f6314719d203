#include "observe/metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bounded_json.h"
#include "base/chrome_trace.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "failures/evidence_json.h"
#include "observe/goodput_json.h"
#include "observe/metrics_segments.h"
#include "train/expert_load.h"

namespace trireme {
namespace {

// Builds a line on the stack, so that the metrics of a step allocate nothing.
class LineBuffer {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const size_t room = sizeof text_ - size_;
    const auto result = fmt::format_to_n(text_ + size_, room, format, std::forward<Args>(args)...);
    size_ += std::min(room, result.size);
  }
  void add_number(const char* key, double value) {
    if (std::isfinite(value)) {
      add(",\"{}\":{}", key, value);
    } else {
      add(",\"{}\":null", key);
    }
  }
  std::string_view text() const { return {text_, size_}; }

 private:
  char text_[6144];
  size_t size_ = 0;
};

// With more experts than this, their shares are not listed.
constexpr int64_t kMostShares = 512;

void add_expert_load(LineBuffer& line, const StepReport& report) {
  const ExpertLoad load = expert_load(report.expert_loads, report.num_experts);
  line.add_number("expert_max_over_mean", load.max_over_mean);
  if (report.aux_loss) line.add_number("aux_loss", *report.aux_loss);
  if (report.z_loss) line.add_number("z_loss", *report.z_loss);
  line.add(",\"dropped_visits\":{},\"expert_visits\":{}", load.dropped, load.visits);
  if (report.num_experts > kMostShares) return;
  line.add(",\"expert_share\":[");
  for (int64_t expert = 0; expert < report.num_experts; ++expert) {
    line.add("{}{:.5f}", expert == 0 ? "" : ",",
             expert_share(report.expert_loads, report.num_experts, expert));
  }
  line.add("]");
}

void add_devices(LineBuffer& line, const std::vector<DeviceStatistics>& devices) {
  line.add(",\"devices\":[");
  for (const DeviceStatistics& device : devices) {
    line.add("{}{{\"device\":{},\"name\":\"{}\"", &device == &devices.front() ? "" : ",",
             device.index, json_escaped(device.name));
    if (device.temperature_c) line.add(",\"temperature_c\":{}", *device.temperature_c);
    if (device.power_w) line.add(",\"power_w\":{}", *device.power_w);
    if (device.ecc_corrected) line.add(",\"ecc_corrected\":{}", *device.ecc_corrected);
    if (device.ecc_uncorrected) line.add(",\"ecc_uncorrected\":{}", *device.ecc_uncorrected);
    line.add(",\"throttle\":[");
    for (const std::string_view& reason : device.throttle) {
      line.add("{}\"{}\"", &reason == &device.throttle.front() ? "" : ",", reason);
    }
    line.add("]}}");
  }
  line.add("]");
}

std::string run_line(const char* event, int64_t step, const std::string& fields) {
  return fmt::format("{{\"event\":\"{}\",\"step\":{},\"time\":{:.3f}{}{}}}\n", event, step,
                     unix_time_s(), fields.empty() ? "" : ",", fields);
}

// Failures that a run has survived are a part of its history, whatever step is resumed.
bool is_survived(const nlohmann::json& line) {
  const std::string event = line.value("event", "");
  return (event == "failure" || event == "restart") && line.contains("epoch");
}

// Returns the lines of a metrics file up to `step`. A last line that a crash has cut is dropped.
std::string lines_until(const std::string& text, int64_t step) {
  std::string kept;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin + 1);
    begin = end + 1;
    if (!check_json_limits(line).ok()) continue;
    const auto json = parse_json_or_discard(line);
    if (!json.is_object()) continue;
    const auto found = json.find("step");
    const bool later =
        found != json.end() && found->is_number_integer() && found->get<int64_t>() > step;
    if (!later || is_survived(json)) kept += line;
  }
  return kept;
}

// Returns true if the first line, a `run` event, is of a later step. Then all lines of this part
// are.
bool begins_after(const std::string& text, int64_t step) {
  const std::string line = text.substr(0, text.find('\n'));
  if (!check_json_limits(line).ok()) return false;
  const auto json = parse_json_or_discard(line);
  if (!json.is_object()) return false;
  const auto found = json.find("step");
  return found != json.end() && found->is_number_integer() && found->get<int64_t>() > step;
}

// Returns the text of the part in which `step` lies, and the survived failures of later parts.
// Removes the later parts, and gives this part the name metrics.jsonl.
Result<std::string> newest_text(const std::string& path, int64_t step) {
  TRIREME_TRY(text, read_text_file(path));
  std::string survived;
  for (int64_t part = num_metrics_parts(path); part > 0 && begins_after(text, step); --part) {
    survived = lines_until(text, step) + survived;
    TRIREME_TRY(earlier, read_text_file(metrics_part(path, part)));
    std::error_code error;
    std::filesystem::rename(metrics_part(path, part), path, error);
    if (error) return damaged(path + ": cannot be replaced: " + error.message());
    text = std::move(earlier);
  }
  return text + survived;
}

}  // namespace

void MetricsFile::rotate_at(int64_t bytes, std::string run_fields) {
  most_bytes_ = bytes;
  run_fields_ = std::move(run_fields);
}

// If renaming fails, it is tried again when the file has twice the size.
void MetricsFile::rotate_if_full(int64_t step) {
  if (most_bytes_ == 0 || file_.bytes() < most_bytes_) return;
  if (!file_.rotate(metrics_part(path_, num_metrics_parts(path_) + 1)).ok()) {
    most_bytes_ *= 2;
    return;
  }
  file_.append(run_line("run", step, run_fields_));
}

Result<MetricsFile> MetricsFile::create(const std::string& path, const std::string& run_fields) {
  std::error_code ignored;
  for (int64_t part = num_metrics_parts(path); part > 0; --part) {
    std::filesystem::remove(metrics_part(path, part), ignored);
  }
  TRIREME_TRY(file, AppendFile::create(path));
  file.append(run_line("run", 0, run_fields));
  return MetricsFile(path, std::move(file));
}

Result<MetricsFile> MetricsFile::resume(const std::string& path, int64_t step,
                                        const std::string& run_fields) {
  const bool is_new = !std::filesystem::exists(path);
  TRIREME_TRY(metrics, resume_after_failure(path, step, run_fields));
  if (!is_new) metrics.file_.append(run_line("restart", step, run_fields));
  return std::move(metrics);
}

Result<MetricsFile> MetricsFile::resume_after_failure(const std::string& path, int64_t step,
                                                      const std::string& run_fields) {
  if (!std::filesystem::exists(path)) return create(path, run_fields);
  TRIREME_TRY(text, newest_text(path, step));
  const std::string kept = lines_until(text, step);
  if (const Status written = write_file_atomically(path, kept); !written.ok()) {
    TRIREME_TRY_DONE(AppendFile::shorten(path, kept));  // a full disk has no room for a second file
  }
  TRIREME_TRY(file, AppendFile::open(path));
  return MetricsFile(path, std::move(file));
}

Status MetricsFile::append_lines(const std::string& path, const std::string& lines) {
  TRIREME_TRY(file, AppendFile::open(path));
  file.append(lines);
  return Done{};
}

void MetricsFile::write_survived(const std::string& failure_lines, int64_t step,
                                 const std::string& fields) {
  file_.append(failure_lines);
  file_.append(run_line("restart", step, fields));
}

void MetricsFile::on_step(const StepReport& report) {
  LineBuffer line;
  line.add("{{\"event\":\"train\",\"step\":{},\"time\":{:.3f}", report.step, unix_time_s());
  line.add_number("loss", report.loss);
  line.add_number("lr", report.lr);
  line.add_number("grad_norm", report.grad_norm);
  if (report.loss_scale > 0.0) line.add_number("loss_scale", report.loss_scale);
  if (report.noise_scale) line.add_number("noise_scale", *report.noise_scale);
  if (report.mtp_loss) line.add_number("mtp_loss", *report.mtp_loss);
  if (report.max_logit) {
    line.add_number("max_logit", *report.max_logit);
    line.add(",\"clipped_heads\":{}", report.clipped_heads);
  }
  line.add(",\"tokens\":{}", report.tokens);
  line.add_number("step_s", report.step_s);
  line.add_number("tokens_per_s", report.tokens_per_s);
  line.add_number("mfu", report.mfu);
  if (report.epoch) line.add_number("epoch", *report.epoch);
  if (report.num_experts > 0) add_expert_load(line, report);
  if (report.skipped) line.add(",\"skipped\":true,\"skipped_steps\":{}", report.skipped_steps);
  line.add("}}\n");
  file_.append(line.text());
  rotate_if_full(report.step);
}

void MetricsFile::on_eval(const EvalReport& report) {
  LineBuffer line;
  line.add("{{\"event\":\"eval\",\"step\":{},\"time\":{:.3f}", report.step, unix_time_s());
  line.add_number("val_loss", report.val_loss);
  if (report.bits_per_byte > 0.0) line.add_number("bits_per_byte", report.bits_per_byte);
  if (report.accuracy) line.add_number("accuracy", *report.accuracy);
  line.add_number("seconds", report.seconds);
  if (report.epoch) line.add_number("epoch", *report.epoch);
  if (report.best_step >= 0) {
    line.add_number("best_val_loss", report.best_loss);
    line.add(",\"best_step\":{}", report.best_step);
  }
  line.add("}}\n");
  file_.append(line.text());
}

void MetricsFile::on_sample(const SampleReport& report) {
  nlohmann::ordered_json json = {
      {"event", "sample"}, {"step", report.step}, {"time", unix_time_s()}, {"text", report.text}};
  // Sampled bytes may be invalid UTF-8, which JSON does not allow.
  file_.append(lenient_json_text(json) + "\n");
}

void MetricsFile::on_checkpoint(const CheckpointReport& report) {
  const std::string stall =
      report.stall_s ? fmt::format(",\"snapshot_stall_s\":{}", *report.stall_s) : "";
  file_.append(fmt::format(
      "{{\"event\":\"checkpoint\",\"step\":{},\"time\":{:.3f},\"path\":\"{}\",\"seconds\":{}{}}}\n",
      report.step, unix_time_s(), json_escaped(report.path), report.seconds, stall));
}

void MetricsFile::on_goodput(const GoodputReport& report) {
  nlohmann::ordered_json line = {
      {"event", "goodput"}, {"step", report.step}, {"time", unix_time_s()}};
  line.update(goodput_json(report));
  file_.append(json_text(line) + "\n");
}

void MetricsFile::on_rollback(const RollbackReport& report) {
  nlohmann::ordered_json line = {{"event", "rollback"},
                                 {"step", report.resumed_step},
                                 {"time", unix_time_s()},
                                 {"spike_step", report.step},
                                 {"loss", report.loss},
                                 {"z_score", report.z_score},
                                 {"first_sample", report.first_sample},
                                 {"samples", report.num_samples}};
  file_.append(json_text(line) + "\n");
}

void MetricsFile::on_skip(const SkipReport& report) {
  file_.append(fmt::format(
      "{{\"event\":\"skip\",\"step\":{},\"time\":{:.3f},\"first_sample\":{},\"samples\":{}}}\n",
      report.step, unix_time_s(), report.first_sample, report.num_samples));
}

void MetricsFile::write_host(int64_t step, const HostStatistics& statistics,
                             const std::vector<DeviceStatistics>& devices) {
  LineBuffer line;
  line.add("{{\"event\":\"host\",\"step\":{},\"time\":{:.3f},\"stolen\":{:.4f},\"runnable\":{}",
           step, unix_time_s(), statistics.stolen, statistics.runnable);
  line.add(",\"major_faults_per_s\":{:.1f},\"memory_pressure\":{:.4f},\"disk_ms\":{:.3f}",
           statistics.faults_per_s, statistics.memory_pressure, statistics.disk_ms);
  line.add(",\"network_errors\":{},\"throttled_ms\":{}", statistics.network_errors,
           statistics.throttled_ms);
  if (!devices.empty()) add_devices(line, devices);
  line.add("}}\n");
  file_.append(line.text());
}

void MetricsFile::write_failure(int64_t step, const std::string& cause,
                                const std::optional<CorruptionAlarm>& alarm) {
  const std::string found =
      alarm ? fmt::format(",\"corruption\":{}", json_text(corruption_json(*alarm))) : "";
  file_.append(
      fmt::format("{{\"event\":\"failure\",\"step\":{},\"time\":{:.3f},\"cause\":\"{}\"{}}}\n",
                  step, unix_time_s(), json_escaped(cause), found));
}

}  // namespace trireme
