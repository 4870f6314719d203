#include "cli/failures_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "agent/job_status.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/sealed_json.h"
#include "cli/path_checks.h"
#include "config/failure_rules_file.h"
#include "failures/classify.h"
#include "failures/evidence_json.h"
#include "observe/metrics_segments.h"
#include "observe/recorded_failures.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostMetricsBytes = int64_t{1} << 30;
constexpr int64_t kMostAgentBytes = int64_t{1} << 20;
constexpr int64_t kMostEvidenceBytes = int64_t{8} << 20;
constexpr size_t kShownLetters = 160;  // of a cause

struct ClassifiedFailure {
  RecordedFailure recorded;
  Classification found;
};

// The evidence of all failures of a run, in their order.
std::vector<std::string> evidence_files(const std::string& run_dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir + "/failures", error)) {
    const std::filesystem::path path = entry.path() / "evidence.json";
    if (std::filesystem::exists(path, error)) files.push_back(path.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::vector<RecordedFailure>> read_failures(const std::string& run_dir) {
  const std::string metrics = run_dir + "/metrics.jsonl", agent = run_dir + "/" + kStatusFile;
  std::error_code ignored;
  const std::vector<std::string> evidence = evidence_files(run_dir);
  std::vector<RecordedFailure> failures;
  if (std::filesystem::exists(metrics, ignored)) {
    TRIREME_TRY(text, read_metrics(metrics, kMostMetricsBytes));
    TRIREME_TRY(recorded, failures_of_metrics(text, metrics));
    failures = std::move(recorded);
  } else if (evidence.empty()) {
    TRIREME_TRY_DONE(require_run_folder(run_dir));
    return usage(fmt::format("{} has no metrics.jsonl: name the folder of a run", run_dir));
  }
  for (const std::string& path : evidence) {
    TRIREME_TRY(text, read_text_file(path, kMostEvidenceBytes));
    TRIREME_TRY_DONE(add_failure_of_evidence(text, path, failures));
  }
  if (!std::filesystem::exists(agent, ignored)) return failures;
  TRIREME_TRY(status, read_text_file(agent, kMostAgentBytes));
  const Status seal = check_seal(status);
  if (!seal.ok()) return damaged(with_context(seal.error(), agent).message);
  TRIREME_TRY_DONE(add_failures_of_agent(status, agent, failures));
  return failures;
}

std::string one_line(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  if (line.size() <= kShownLetters) return line;
  const size_t space = line.rfind(' ', kShownLetters);  // no word is cut unless it fills the line
  const bool has_space = space != std::string::npos && space > kShownLetters / 2;
  return line.substr(0, has_space ? space : kShownLetters) + " ...";
}

std::string advice_lines(const ClassAdvice& advice, const std::string& remedy) {
  return fmt::format(
      "  usual causes  user: {}\n                system: {}\n                hardware: {}\n"
      "  remedy        {}\n",
      advice.user, advice.system, advice.hardware, remedy);
}

std::string failure_text(const ClassifiedFailure& failure, const FailureRules& rules) {
  const auto& [recorded, found] = failure;
  std::string text = fmt::format("failure {} after step {}: {}", recorded.number, recorded.step,
                                 name_of(found.failure_class));
  if (!found.rule.empty()) {
    text += fmt::format(" (confidence {:.2f}, rule \"{}\")", found.confidence, found.rule);
  }
  text += "\n";
  if (recorded.rank >= 0) {
    text += fmt::format("  where         rank {} on host {}\n", recorded.rank, recorded.host);
  }
  if (recorded.suspect >= 0 && recorded.suspect != recorded.rank) {
    text += fmt::format("  suspect       rank {}, which does not answer\n", recorded.suspect);
  }
  text += fmt::format("  said          {}\n", one_line(recorded.cause));
  const std::string seen = evidence_text(recorded.evidence);
  const bool is_unknown = found.failure_class == FailureClass::Unknown;
  const std::string& decided = is_unknown || found.evidence.empty() ? seen : found.evidence;
  if (!decided.empty()) text += fmt::format("  evidence      {}\n", one_line(decided));
  if (decided != seen && !seen.empty()) {
    text += fmt::format("  seen          {}\n", one_line(seen));
  }
  if (recorded.goes_back_to >= 0) {
    text += fmt::format("  went back     to a checkpoint of step {} or earlier, because {}\n",
                        recorded.goes_back_to, recorded.why_back);
  }
  if (recorded.has_resumed) {
    text += "  since then    the run has resumed; the remedy is for a failure that comes again\n";
  }
  if (!recorded.folder.empty()) {
    text += fmt::format("  collected     {}/index.html\n", recorded.folder);
  }
  if (is_unknown) return text + fmt::format("  remedy        {}\n", found.remedy);
  return text + advice_lines(rules.advice_of(found.failure_class), found.remedy);
}

Json advice_json(const ClassAdvice& advice) {
  return {{"user", advice.user}, {"system", advice.system}, {"hardware", advice.hardware}};
}

Json failure_json(const ClassifiedFailure& failure, const FailureRules& rules) {
  const auto& [recorded, found] = failure;
  Json json = {{"number", recorded.number},
               {"class", name_of(found.failure_class)},
               {"confidence", found.confidence},
               {"rule", found.rule},
               {"rank", recorded.rank},
               {"host", recorded.host},
               {"step", recorded.step},
               {"epoch", recorded.epoch},
               {"time", recorded.time_s},
               {"detected_ms", recorded.detected_ms},
               {"kind", recorded.evidence.kind},
               {"evidence", found.evidence},
               {"cause", recorded.cause},
               {"failure_class", name_of(found.failure_class)},
               {"usual_causes", advice_json(rules.advice_of(found.failure_class))},
               {"remedy", found.remedy}};
  if (recorded.suspect >= 0) json["suspect"] = recorded.suspect;
  if (recorded.goes_back_to >= 0) {
    json["goes_back_to"] = recorded.goes_back_to;
    json["why_back"] = recorded.why_back;
  }
  if (recorded.has_resumed) json["has_resumed"] = true;
  if (!recorded.folder.empty()) json["folder"] = recorded.folder;
  json["seen"] = Json(evidence_json(recorded.evidence));
  return json;
}

void print_rules(const FailureRules& rules, bool as_json, CommandIo& io) {
  Json classes = Json::object(), list = Json::array();
  std::string text;
  for (size_t i = 0; i < rules.advice.size(); ++i) {
    const auto name = kFailureClassNames[i];
    classes[std::string(name)] = advice_json(rules.advice[i]);
    classes[std::string(name)]["remedy"] = rules.advice[i].remedy;
    text += fmt::format("{}\n{}", name, advice_lines(rules.advice[i], rules.advice[i].remedy));
  }
  text += "\nrules, the most confident first decides\n";
  for (const FailureRule& rule : rules.rules) {
    list.push_back({{"rule", rule.name},
                    {"class", name_of(rule.failure_class)},
                    {"confidence", rule.confidence},
                    {"where", rule.where}});
    text += fmt::format("  {:.2f}  {:<16}  {}  ({})\n", rule.confidence,
                        name_of(rule.failure_class), rule.name, rule.where);
  }
  io.out << (as_json ? json_text(Json{{"classes", classes}, {"rules", list}}, 2) + "\n" : text);
}

}  // namespace

Result<int> run_failures(const FailuresOptions& options, CommandIo& io) {
  FailureRules rules = built_in_failure_rules();
  if (!options.rules.empty()) {
    TRIREME_TRY(extended, load_failure_rules(options.rules));
    rules = std::move(extended);
  }
  if (options.run_dir.empty()) {
    print_rules(rules, options.json, io);
    return 0;
  }
  TRIREME_TRY(recorded, read_failures(options.run_dir));
  Json list = Json::array();
  std::string text = recorded.empty() ? "no failure is recorded\n" : "";
  for (RecordedFailure& one : recorded) {
    if (one.number == 0)
      one.number = int64_t(list.size()) + 1;  // trireme train does not count them
    Classification found = classify(one.evidence, rules);
    const ClassifiedFailure failure{std::move(one), std::move(found)};
    list.push_back(failure_json(failure, rules));
    text += (text.empty() ? "" : "\n") + failure_text(failure, rules);
  }
  io.out << (options.json ? lenient_json_text(Json{{"failures", list}}, 2) + "\n" : text);
  return 0;
}

}  // namespace trireme
