#include "train/report.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "train/report_page.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostPoints = 2000;  // of a curve; more cannot be seen

// Absent or unreadable files leave their part of the page empty.
std::string text_or_empty(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  return text.ok() ? std::move(*text) : std::string();
}

Json json_or_null(const std::string& path) {
  Json json = Json::parse(text_or_empty(path), nullptr, false);
  return json.is_discarded() ? Json() : json;
}

// The lines of metrics.jsonl by event. Long curves are thinned to every n-th step.
Json collect_metrics(const std::string& path) {
  Json events = Json::object();
  for (const char* event : {"run", "train", "eval", "sample", "checkpoint", "failure", "restart"}) {
    events[event] = Json::array();
  }
  const std::string text = text_or_empty(path);
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) continue;
    const std::string event = line["event"];
    if (events.contains(event)) events[event].push_back(std::move(line));
  }
  const Json& train = events["train"];
  const size_t every = train.size() / kMostPoints + 1;
  Json thinned = Json::array();
  for (size_t i = 0; i < train.size(); ++i) {
    if (i % every == 0 || i + 1 == train.size()) thinned.push_back(train[i]);
  }
  events["train"] = std::move(thinned);
  return events;
}

// "</script" inside a string would end the page's script; JSON may write the slash escaped.
std::string embeddable(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3)) {
    text.replace(at, 2, "<\\/");
  }
  return text;
}

}  // namespace

Status write_report(const std::string& run_dir, const std::string& out_path) {
  if (!std::filesystem::exists(run_dir + "/metrics.jsonl")) {
    return Error{ErrorKind::Damaged,
                 run_dir + " has no metrics.jsonl: it is not the directory of a run"};
  }
  Json data;
  data["name"] = std::filesystem::path(run_dir).lexically_normal().filename().string();
  data["metrics"] = collect_metrics(run_dir + "/metrics.jsonl");
  Json summary = json_or_null(run_dir + "/summary.json");
  data["summary"] = summary.is_object() ? summary : json_or_null(run_dir + "/plan.json");
  data["trace"] = json_or_null(run_dir + "/trace.rank0.json");
  data["config"] = text_or_empty(run_dir + "/config.resolved.toml");
  std::string page(report_page());
  const std::string place = "@@DATA@@";
  page.replace(page.find(place), place.size(), embeddable(data));
  return write_file_atomically(out_path, page);
}

}  // namespace trireme
