#include "chaos/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/json_text.h"

namespace trireme {
namespace {

constexpr int64_t kMostBytes = int64_t{4} << 30;
constexpr std::string_view kTrain = "{\"event\":\"train\",\"step\":";

// `begins_epoch` is true if the next step is the first one of its epoch.
void add_line(const nlohmann::json& line, bool& begins_epoch, RunLog& log) {
  const std::string event = line.value("event", "");
  if (event == "train") {
    RunLog::Step step{whole_number<int64_t>(line.at("step")), json_text(line.at("loss")),
                      json_text(line.at("grad_norm"))};
    if (line.contains("step_s")) step.step_s = line.at("step_s").get<double>();
    step.begins_epoch = begins_epoch;
    begins_epoch = false;
    log.steps.push_back(std::move(step));
  } else if (event == "checkpoint") {
    RunLog::Save save{line.at("time").get<double>(), line.at("seconds").get<double>()};
    if (line.contains("snapshot_stall_s")) {
      save.stall_s = line.at("snapshot_stall_s").get<double>();
    }
    log.saves.push_back(save);
  } else if (event == "failure") {
    ++log.failures;
  } else if (event == "restart" && line.contains("epoch")) {
    begins_epoch = true;
    const nlohmann::json& ms = line.at("ms");
    log.restarts.push_back({.time_s = line.at("time").get<double>(),
                            .step = whole_number<int64_t>(line.at("step")),
                            .redone_steps = whole_number<int64_t>(line.at("redone_steps")),
                            .from = line.value("from", ""),
                            .checkpoint = line.value("checkpoint", ""),
                            .detect_s = 1e-3 * ms.at("detect").get<double>(),
                            .first_step_s = 1e-3 * ms.at("first_step").get<double>()});
  }
}

}  // namespace

Result<RunLog> read_run_log(const std::string& path) {
  TRIREME_TRY(text, read_text_file(path, kMostBytes));
  RunLog log;
  bool begins_epoch = true;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (!check_json_limits(line).ok()) continue;
    const auto json = parse_json_or_discard(line);
    if (!json.is_object()) continue;
    try {
      add_line(json, begins_epoch, log);
    } catch (const nlohmann::json::exception&) {
      // A line of another program.
    }
  }
  return log;
}

std::optional<double> mean_step_s(const RunLog& log) {
  double seconds = 0.0;
  int64_t count = 0;
  for (const RunLog::Step& step : log.steps) {
    if (!step.step_s || step.begins_epoch) continue;
    seconds += *step.step_s;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(seconds / double(count));
}

int64_t last_step_in(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 65536> end{};
  const int64_t bytes = ::lseek(fd, 0, SEEK_END);
  const ssize_t got =
      ::pread(fd, end.data(), end.size(), std::max<int64_t>(0, bytes - int64_t(end.size())));
  ::close(fd);
  const std::string_view text(end.data(), size_t(std::max<ssize_t>(got, 0)));
  const size_t found = text.rfind(kTrain);
  if (found == std::string_view::npos) return 0;
  return std::atoll(std::string(text.substr(found + kTrain.size(), 20)).c_str());
}

}  // namespace trireme
