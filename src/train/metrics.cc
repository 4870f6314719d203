#include "train/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/chrome_trace.h"
#include "base/file.h"
#include "train/expert_load.h"

namespace trireme {
namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A line is put together on the stack, so that a step's metrics allocate nothing.
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

// Shares of more experts than this are not listed.
constexpr int64_t kMostShares = 512;

void add_expert_load(LineBuffer& line, const StepReport& report) {
  const ExpertLoad load = expert_load(report.expert_loads, report.num_experts);
  line.add_number("expert_max_over_mean", load.max_over_mean);
  line.add(",\"dropped_visits\":{},\"expert_visits\":{}", load.dropped, load.visits);
  if (report.num_experts > kMostShares) return;
  line.add(",\"expert_share\":[");
  for (int64_t expert = 0; expert < report.num_experts; ++expert) {
    line.add("{}{:.5f}", expert == 0 ? "" : ",",
             expert_share(report.expert_loads, report.num_experts, expert));
  }
  line.add("]");
}

Result<int> open_for_writing(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd >= 0) return fd;
  return Error{ErrorKind::Runtime, path + ": cannot write: " + std::strerror(errno)};
}

std::string run_line(const char* event, int64_t step, const std::string& fields) {
  return fmt::format("{{\"event\":\"{}\",\"step\":{},\"time\":{:.3f}{}{}}}\n", event, step,
                     unix_time(), fields.empty() ? "" : ",", fields);
}

// The lines of a metrics file up to `step`. A last line that was cut by a crash is dropped.
std::string lines_until(const std::string& text, int64_t step) {
  std::string kept;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin + 1);
    begin = end + 1;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto found = json.find("step");
    const bool later =
        found != json.end() && found->is_number_integer() && found->get<int64_t>() > step;
    if (!later) kept += line;
  }
  return kept;
}

}  // namespace

Result<MetricsFile> MetricsFile::create(const std::string& path, const std::string& run_fields) {
  TRIREME_TRY(fd, open_for_writing(path, O_CREAT | O_TRUNC));
  MetricsFile metrics(path, fd, 0);
  metrics.write_line(run_line("run", 0, run_fields));
  return metrics;
}

Result<MetricsFile> MetricsFile::resume(const std::string& path, int64_t step,
                                        const std::string& run_fields) {
  if (!std::filesystem::exists(path)) return create(path, run_fields);
  TRIREME_TRY(text, read_text_file(path));
  const std::string kept = lines_until(text, step);
  TRIREME_TRY_DONE(write_file_atomically(path, kept));
  TRIREME_TRY(fd, open_for_writing(path, O_APPEND));
  MetricsFile metrics(path, fd, int64_t(kept.size()));
  metrics.write_line(run_line("restart", step, run_fields));
  return metrics;
}

MetricsFile::MetricsFile(std::string path, int fd, int64_t bytes)
    : path_(std::move(path)), fd_(fd), bytes_(bytes) {}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      loss_(std::move(other.loss_)),
      listeners_(std::move(other.listeners_)) {}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::tell_losses_to(std::vector<RunObserver*> listeners) {
  listeners_ = std::move(listeners);
  if (loss_.empty()) return;
  for (RunObserver* listener : listeners_) listener->on_message(loss_);
}

void MetricsFile::write_line(std::string_view line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return drop_line(errno);
    rest.remove_prefix(size_t(written));
  }
  bytes_ += int64_t(line.size());
}

// Cuts what there is of the line, so that the next one does not continue it.
void MetricsFile::drop_line(int cause) {
  if (::ftruncate(fd_, bytes_) == 0) ::lseek(fd_, bytes_, SEEK_SET);
  if (!loss_.empty()) return;
  loss_ =
      fmt::format("{}: cannot write: {}; training goes on, its metrics are lost until this ends",
                  path_, std::strerror(cause));
  for (RunObserver* listener : listeners_) listener->on_message(loss_);
}

void MetricsFile::on_step(const StepReport& report) {
  LineBuffer line;
  line.add("{{\"event\":\"train\",\"step\":{},\"time\":{:.3f}", report.step, unix_time());
  line.add_number("loss", report.loss);
  line.add_number("lr", report.lr);
  line.add_number("grad_norm", report.grad_norm);
  line.add(",\"tokens\":{}", report.tokens);
  line.add_number("step_s", report.step_s);
  line.add_number("tokens_per_s", report.tokens_per_s);
  line.add_number("mfu", report.mfu);
  if (report.num_experts > 0) add_expert_load(line, report);
  if (report.skipped) line.add(",\"skipped\":true,\"skipped_steps\":{}", report.skipped_steps);
  line.add("}}\n");
  write_line(line.text());
}

void MetricsFile::on_eval(const EvalReport& report) {
  LineBuffer line;
  line.add("{{\"event\":\"eval\",\"step\":{},\"time\":{:.3f}", report.step, unix_time());
  line.add_number("val_loss", report.val_loss);
  if (report.bits_per_byte > 0.0) line.add_number("bits_per_byte", report.bits_per_byte);
  line.add_number("seconds", report.seconds);
  line.add("}}\n");
  write_line(line.text());
}

void MetricsFile::on_sample(const SampleReport& report) {
  nlohmann::ordered_json json = {
      {"event", "sample"}, {"step", report.step}, {"time", unix_time()}, {"text", report.text}};
  // Sampled bytes need not be UTF-8; JSON must be.
  write_line(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void MetricsFile::on_checkpoint(const CheckpointReport& report) {
  write_line(fmt::format(
      "{{\"event\":\"checkpoint\",\"step\":{},\"time\":{:.3f},\"path\":\"{}\",\"seconds\":{}}}\n",
      report.step, unix_time(), json_escaped(report.path), report.seconds));
}

void MetricsFile::write_failure(int64_t step, const std::string& cause) {
  write_line(fmt::format("{{\"event\":\"failure\",\"step\":{},\"time\":{:.3f},\"cause\":\"{}\"}}\n",
                         step, unix_time(), json_escaped(cause)));
}

}  // namespace trireme
