#include "observe/recorded_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"
#include "base/json_number.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

// The number behind `words` in a text.
std::optional<int> number_behind(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + words.size());
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// The rank before `words`, such as that of "rank 3 does not answer".
int rank_before(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return -1;
  const size_t begin = text.rfind("rank ", at);
  if (begin == std::string_view::npos) return -1;
  const std::optional<int> rank = number_behind(text.substr(begin, at - begin), "rank ");
  return rank.value_or(-1);
}

// Throws nlohmann::json::exception if a key has another type.
RecordedFailure failure_of(const nlohmann::json& line) {
  RecordedFailure failure;
  failure.number = whole_number_or(line, "number", int64_t{0});
  failure.epoch = whole_number_or(line, "epoch", int64_t{0});
  failure.step = whole_number_or(line, "step", int64_t{0});
  failure.time_s = line.value("time", 0.0);
  failure.detected_ms = line.value("detected_ms", 0.0);
  failure.rank = whole_number_or(line, "rank", -1);
  failure.host = line.value("host", "");
  failure.cause = line.value("cause", "");
  failure.evidence = evidence_in(line);
  // Runs that have not recorded the kind under its own name have it as `class`.
  if (failure.evidence.kind.empty()) failure.evidence.kind = line.value("class", "");
  failure.evidence.last_words = failure.cause;
  failure.goes_back_to = whole_number_or(line, "goes_back_to", int64_t{-1});
  failure.why_back = line.value("why_back", "");
  failure.suspect = rank_before(failure.cause, " does not answer");
  return failure;
}

}  // namespace

Result<std::vector<RecordedFailure>> failures_of_metrics(std::string_view text,
                                                         const std::string& path) {
  std::vector<RecordedFailure> failures;
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    const std::string_view line_text = text.substr(begin, end - begin);
    begin = end + 1;
    const auto refuse = [&](const char* why) {
      return damaged(fmt::format("{}:{}: {}; the lines of a run are JSON objects, each whole", path,
                                 number, why));
    };
    if (!line_text.starts_with('{') || !line_text.ends_with('}')) return refuse("not whole");
    const bool may_be_restart = line_text.find(R"("event":"restart")") != std::string_view::npos;
    const bool may_be_failure = line_text.find(R"("event":"failure")") != std::string_view::npos;
    if (!may_be_failure && !may_be_restart) continue;
    Result<nlohmann::json> line = parse_bounded_json(line_text);
    if (!line.ok() || !line->is_object()) return refuse("not a JSON object");
    try {
      const std::string event = line->value("event", "");
      if (event == "failure") failures.push_back(failure_of(*line));
      if (event != "restart") continue;
      for (RecordedFailure& failure : failures) failure.has_resumed = true;
    } catch (const nlohmann::json::exception&) {
      return refuse("a key of the failure has another type");
    }
  }
  return failures;
}

namespace {

// Adds the failure unless it is there already.
void add(RecordedFailure failure, std::vector<RecordedFailure>& failures) {
  const auto known =
      std::find_if(failures.begin(), failures.end(), [&](const RecordedFailure& other) {
        return other.number == failure.number && other.time_s == failure.time_s;
      });
  if (known == failures.end()) {
    failures.push_back(std::move(failure));
  } else if (known->folder.empty()) {
    known->folder = std::move(failure.folder);
  }
}

}  // namespace

Status add_failure_of_evidence(std::string_view text, const std::string& path,
                               std::vector<RecordedFailure>& failures) {
  Result<nlohmann::json> json = parse_bounded_json(text);
  if (!json.ok()) return with_context(json.error(), path);
  try {
    RecordedFailure failure = failure_of(json->at("failure"));
    failure.folder = path.substr(0, path.rfind('/'));
    add(std::move(failure), failures);
  } catch (const nlohmann::json::exception&) {
    return damaged(path + ": a key of the failure is missing or of another type");
  }
  return Done{};
}

Status add_failures_of_agent(std::string_view text, const std::string& path,
                             std::vector<RecordedFailure>& failures) {
  Result<nlohmann::json> json = parse_bounded_json(text);
  if (!json.ok()) return with_context(json.error(), path);
  try {
    for (const nlohmann::json& line : json->at("failures")) add(failure_of(line), failures);
  } catch (const nlohmann::json::exception&) {
    return damaged(path + ": a key of a failure is missing or of another type");
  }
  return Done{};
}

}  // namespace trireme
