#include "observe/report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/absolute_folder.h"
#include "base/bounded_json.h"
#include "base/file.h"
#include "base/json_text.h"
#include "observe/metrics_segments.h"
#include "observe/report_page.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostPoints = 2000;  // of a curve; a screen cannot show more

// Returns "" for an absent or unreadable file; its part of the page stays empty.
std::string text_or_empty(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  return text.ok() ? std::move(*text) : std::string();
}

// Discards text that is no JSON or that no run writes: parsing objects with very many members takes
// quadratic time.
Json json_or_discarded(std::string_view text) {
  const Status within = check_json_limits(text, {.members = limits::kOrderedMembers});
  return within.ok() ? parse_ordered_json_or_discard(text) : Json(Json::value_t::discarded);
}

Json object_or_null(const std::string& path) {
  Json json = json_or_discarded(text_or_empty(path));
  return json.is_object() ? json : Json();
}

// Sorts the lines of metrics.jsonl by event. Long curves keep only every n-th step.
Json collect_metrics(const std::string& path) {
  Json events = Json::object();
  for (const char* event : {"run", "train", "eval", "sample", "checkpoint", "failure", "restart",
                            "goodput", "rollback", "skip"}) {
    events[event] = Json::array();
  }
  const Result<std::string> read = read_metrics(path);
  const std::string text = read.ok() ? *read : std::string();
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    Json line = json_or_discarded(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) continue;
    const std::string event = line["event"];
    if (events.contains(event)) events[event].push_back(std::move(line));
  }
  for (const char* event : {"train", "goodput"}) {
    const Json& all = events[event];
    const size_t every = all.size() / kMostPoints + 1;
    Json thinned = Json::array();
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % every == 0 || i + 1 == all.size()) thinned.push_back(all[i]);
    }
    events[event] = std::move(thinned);
  }
  return events;
}

Result<Json> collect_run(const std::string& run_dir) {
  if (!fs::exists(run_dir)) {
    return Error{ErrorKind::Usage,
                 run_dir + ": no such folder; name a run directory, such as runs/demo"};
  }
  if (!fs::exists(run_dir + "/metrics.jsonl")) {
    return Error{ErrorKind::Damaged,
                 run_dir + " has no metrics.jsonl: it is not the directory of a run"};
  }
  Json run;
  const std::string folder = absolute_folder(run_dir);
  run["name"] = fs::path(folder).filename().string();
  run["folder"] = folder;
  run["metrics"] = collect_metrics(run_dir + "/metrics.jsonl");
  Json summary = object_or_null(run_dir + "/summary.json");
  run["summary"] = summary.is_object() ? summary : object_or_null(run_dir + "/plan.json");
  run["ranks"] = object_or_null(run_dir + "/ranks.json");
  run["config"] = text_or_empty(run_dir + "/config.resolved.toml");
  return run;
}

// The configuration of a run's last start, by "section.key".
std::map<std::string, Json> configuration_of(const Json& run) {
  Json config;
  for (const char* event : {"run", "restart"}) {
    for (const Json& line : run["metrics"][event]) {
      if (line.contains("config") && line["config"].is_object()) config = line["config"];
    }
  }
  std::map<std::string, Json> values;
  for (const auto& section : config.items()) {
    if (!section.value().is_object()) continue;
    for (const auto& entry : section.value().items()) {
      values[section.key() + "." + entry.key()] = entry.value();
    }
  }
  return values;
}

// Returns [{"key": "optim.lr", "values": [one of each run]}].
Json differences_of(const Json& runs) {
  std::vector<std::map<std::string, Json>> configurations;
  std::map<std::string, Json> all;
  for (const Json& run : runs) {
    configurations.push_back(configuration_of(run));
    all.insert(configurations.back().begin(), configurations.back().end());
  }
  Json differences = Json::array();
  for (const auto& entry : all) {
    Json values = Json::array();
    for (const auto& configuration : configurations) {
      const auto found = configuration.find(entry.first);
      values.push_back(found == configuration.end() ? Json() : found->second);
    }
    const bool differs =
        std::any_of(values.begin(), values.end(), [&](const Json& v) { return v != values[0]; });
    if (differs) differences.push_back({{"key", entry.first}, {"values", values}});
  }
  return differences;
}

// Adds their folders to the names of runs that have the same name.
void tell_apart(Json& runs, const std::vector<std::string>& run_dirs) {
  std::map<std::string, int> uses;
  for (const Json& run : runs) ++uses[run["name"].get<std::string>()];
  for (size_t i = 0; i < run_dirs.size(); ++i) {
    if (uses[runs[i]["name"].get<std::string>()] > 1) runs[i]["name"] = run_dirs[i];
  }
}

}  // namespace

Status write_comparison(const std::vector<std::string>& run_dirs, const std::string& out_path) {
  Json data;
  data["runs"] = Json::array();
  for (const std::string& run_dir : run_dirs) {
    TRIREME_TRY(run, collect_run(run_dir));
    data["runs"].push_back(std::move(run));
  }
  tell_apart(data["runs"], run_dirs);
  data["differences"] = differences_of(data["runs"]);
  const std::string json = lenient_json_text(data);
  TRIREME_TRY_DONE(make_folders_of(out_path));
  return write_file_atomically(out_path, report_page(json));
}

Status write_report(const std::string& run_dir, const std::string& out_path) {
  return write_comparison({run_dir}, out_path);
}

}  // namespace trireme
