#include "agent/host_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/chrome_trace.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr int64_t kMostHistoryBytes = int64_t{16} << 20;

Result<HostFailure> failure_in(std::string_view line) {
  TRIREME_TRY(json, parse_bounded_json(line));
  try {
    HostFailure failure{.host = json.at("host").get<std::string>(),
                        .kind = json.at("kind").get<std::string>(),
                        .time_s = json.at("time").get<double>(),
                        .weight = json.value("weight", 1.0)};
    const bool is_possible =
        std::isfinite(failure.time_s) && failure.weight > 0.0 && failure.weight <= kWrongHostWeight;
    if (!failure.host.empty() && is_possible) return failure;
  } catch (const nlohmann::json::exception&) {
    // The message below names what is missing.
  }
  return damaged(
      "a failure needs the texts host and kind, and the number time; a weight is above 0");
}

}  // namespace

Result<std::vector<HostFailure>> host_failures_in(std::string_view text, const std::string& path) {
  std::vector<HostFailure> failures;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    Result<HostFailure> failure = failure_in(line);
    if (!failure.ok()) {
      return damaged(fmt::format("{}:{}: {}; correct or remove the line", path, number,
                                 failure.error().message));
    }
    failures.push_back(std::move(*failure));
  }
  return failures;
}

Result<std::vector<HostFailure>> read_host_history(const std::string& run_dir) {
  const std::string path = run_dir + "/" + kHostHistoryFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::vector<HostFailure>();
  TRIREME_TRY(text, read_text_file(path, kMostHistoryBytes));
  return host_failures_in(text, path);
}

std::vector<HostFailure> host_failures_of(const std::vector<JobFailure>& failures) {
  std::vector<HostFailure> of_hosts;
  for (const JobFailure& failure : failures) {
    // "killed" is by hand or by the system, and "lost" blames nobody. Before the first step the
    // folder may be that of another run.
    if (failure.furthest_step == 0) continue;
    if (failure.evidence.corruption) {
      const std::vector<std::string> hosts = hosts_named_by(*failure.evidence.corruption);
      const double weight = hosts.size() == 1 ? kWrongHostWeight : 1.0 / double(hosts.size());
      for (const std::string& host : hosts) {
        of_hosts.push_back({host, "corrupted", failure.time_s, weight});
      }
      continue;
    }
    if (failure.host.empty() || failure.kind == "killed" || failure.kind == "lost") continue;
    of_hosts.push_back({failure.host, failure.kind, failure.time_s});
  }
  return of_hosts;
}

std::string history_lines(const std::vector<JobFailure>& failures) {
  std::string lines;
  for (const HostFailure& failure : host_failures_of(failures)) {
    const std::string weight =
        failure.weight == 1.0 ? "" : fmt::format(",\"weight\":{:.3f}", failure.weight);
    lines += fmt::format("{{\"host\":\"{}\",\"kind\":\"{}\",\"time\":{:.3f}{}}}\n",
                         json_escaped(failure.host), failure.kind, failure.time_s, weight);
  }
  return lines;
}

double score_of(const std::vector<HostFailure>& failures, const std::string& host, double now_s) {
  double score = 0.0;
  for (const HostFailure& failure : failures) {
    if (failure.host != host) continue;
    score += failure.weight * std::exp2(-std::max(0.0, now_s - failure.time_s) / kHistoryHalfLifeS);
  }
  return score;
}

}  // namespace trireme
