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
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto found = json.find("step");
    const bool later =
        found != json.end() && found->is_number_integer() && found->get<int64_t>() > step;
    if (!later || is_survived(json)) kept += line;
  }
  return kept;
}

}  // namespace

Result<MetricsFile> MetricsFile::create(const std::string& path, const std::string& run_fields) {
  TRIREME_TRY(file, AppendFile::create(path));
  file.append(run_line("run", 0, run_fields));
  return MetricsFile(std::move(file));
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
  TRIREME_TRY(text, read_text_file(path));
  const std::string kept = lines_until(text, step);
  if (const Status written = write_file_atomically(path, kept); !written.ok()) {
    TRIREME_TRY_DONE(AppendFile::shorten(path, kept));  // a full disk has no room for a second file
  }
  TRIREME_TRY(file, AppendFile::open(path));
  return MetricsFile(std::move(file));
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
  line.add(",\"tokens\":{}", report.tokens);
  line.add_number("step_s", report.step_s);
  line.add_number("tokens_per_s", report.tokens_per_s);
  line.add_number("mfu", report.mfu);
  if (report.num_experts > 0) add_expert_load(line, report);
  if (report.skipped) line.add(",\"skipped\":true,\"skipped_steps\":{}", report.skipped_steps);
  line.add("}}\n");
  file_.append(line.text());
}

void MetricsFile::on_eval(const EvalReport& report) {
  LineBuffer line;
  line.add("{{\"event\":\"eval\",\"step\":{},\"time\":{:.3f}", report.step, unix_time_s());
  line.add_number("val_loss", report.val_loss);
  if (report.bits_per_byte > 0.0) line.add_number("bits_per_byte", report.bits_per_byte);
  line.add_number("seconds", report.seconds);
  line.add("}}\n");
  file_.append(line.text());
}

void MetricsFile::on_sample(const SampleReport& report) {
  nlohmann::ordered_json json = {
      {"event", "sample"}, {"step", report.step}, {"time", unix_time_s()}, {"text", report.text}};
  // Sampled bytes may be invalid UTF-8, which JSON does not allow.
  file_.append(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void MetricsFile::on_checkpoint(const CheckpointReport& report) {
  const std::string stall =
      report.stall_s ? fmt::format(",\"snapshot_stall_s\":{}", *report.stall_s) : "";
  file_.append(fmt::format(
      "{{\"event\":\"checkpoint\",\"step\":{},\"time\":{:.3f},\"path\":\"{}\",\"seconds\":{}{}}}\n",
      report.step, unix_time_s(), json_escaped(report.path), report.seconds, stall));
}

void MetricsFile::write_failure(int64_t step, const std::string& cause) {
  file_.append(
      fmt::format("{{\"event\":\"failure\",\"step\":{},\"time\":{:.3f},\"cause\":\"{}\"}}\n", step,
                  unix_time_s(), json_escaped(cause)));
}

}  // namespace trireme
