#include "failures/evidence_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_number.h"

namespace trireme {
namespace {

struct Counter {
  const char* key;
  int64_t FailureEvidence::*value;
};
constexpr Counter kCounters[] = {{"oom_kills", &FailureEvidence::oom_kills},
                                 {"disk_errors", &FailureEvidence::disk_errors},
                                 {"network_errors", &FailureEvidence::network_errors},
                                 {"memory_errors", &FailureEvidence::memory_errors},
                                 {"device_errors", &FailureEvidence::device_errors},
                                 {"throttled_ms", &FailureEvidence::throttled_ms},
                                 {"nonfinite_steps", &FailureEvidence::nonfinite_steps}};

struct Texts {
  const char* key;
  std::vector<std::string> FailureEvidence::*value;
};
constexpr Texts kTexts[] = {{"kernel", &FailureEvidence::kernel_lines},
                            {"peers", &FailureEvidence::peers_words}};

// Throws nlohmann::json::exception if a key is missing or has another type, or names no check.
CorruptionAlarm corruption_in(const nlohmann::json& object) {
  const auto check = corruption_check_of(object.at("check").get<std::string>());
  if (!check) throw nlohmann::json::other_error::create(501, "check is unknown", &object);
  CorruptionAlarm alarm{.check = *check,
                        .step = whole_number<int64_t>(object.at("step")),
                        .ranks = {},
                        .is_certain = object.at("certain").get<bool>()};
  if (object.contains("clean_step")) {
    alarm.clean_step = whole_number<int64_t>(object.at("clean_step"));
  }
  for (const nlohmann::json& named : object.at("ranks")) {
    alarm.ranks.push_back(
        {whole_number<int>(named.at("rank")), named.at("host").get<std::string>()});
  }
  return alarm;
}

}  // namespace

nlohmann::ordered_json corruption_json(const CorruptionAlarm& alarm) {
  auto ranks = nlohmann::ordered_json::array();
  for (const auto& [rank, host] : listed_ranks(alarm)) {
    ranks.push_back({{"rank", rank}, {"host", host}});
  }
  nlohmann::ordered_json json = {{"check", name_of(alarm.check)},
                                 {"step", alarm.step},
                                 {"ranks", std::move(ranks)},
                                 {"certain", alarm.is_certain}};
  if (alarm.clean_step) json["clean_step"] = *alarm.clean_step;
  return json;
}

std::string corruption_text(const CorruptionAlarm& alarm) {
  const bool is_host_unknown = !alarm.is_certain && hosts_named_by(alarm).size() > 1;
  return fmt::format("{} computed or held wrong numbers, as the check {} has found{}",
                     named_ranks_text(alarm), name_of(alarm.check),
                     is_host_unknown ? "; nothing tells which of them, so no host is drained" : "");
}

nlohmann::ordered_json evidence_json(const FailureEvidence& evidence,
                                     const EvidenceLimits& limits) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!evidence.kind.empty()) json["kind"] = evidence.kind;
  if (evidence.exit_code) json["exit_code"] = *evidence.exit_code;
  if (evidence.signal != 0) json["signal"] = evidence.signal;
  if (!evidence.phase.empty()) json["phase"] = evidence.phase;
  if (evidence.action >= 0) json["action"] = evidence.action;
  if (!evidence.action_code.empty()) json["action_code"] = evidence.action_code;
  if (evidence.call >= 0) json["call"] = evidence.call;
  if (evidence.num_samples > 0) {
    json["first_sample"] = evidence.first_sample;
    json["samples"] = evidence.num_samples;
  }
  if (!evidence.watchdog.empty()) json["watchdog"] = evidence.watchdog.substr(0, limits.bytes);
  if (evidence.corruption) json["corruption"] = corruption_json(*evidence.corruption);
  if (evidence.was_first) json["was_first"] = *evidence.was_first;
  for (const Counter& counter : kCounters) {
    if (evidence.*counter.value != 0) json[counter.key] = evidence.*counter.value;
  }
  for (const Texts& texts : kTexts) {
    const std::vector<std::string>& all = evidence.*texts.value;
    const size_t first = all.size() - std::min(all.size(), limits.texts);
    for (size_t i = first; i < all.size(); ++i) {
      json[texts.key].push_back(all[i].substr(0, limits.bytes));
    }
  }
  return json;
}

FailureEvidence evidence_in(const nlohmann::json& object) {
  FailureEvidence evidence;
  evidence.kind = object.value("kind", "");
  if (object.contains("exit_code")) evidence.exit_code = whole_number<int>(object.at("exit_code"));
  evidence.signal = whole_number_or(object, "signal", 0);
  evidence.phase = object.value("phase", "");
  evidence.action = whole_number_or(object, "action", int64_t{-1});
  evidence.action_code = object.value("action_code", "");
  evidence.call = whole_number_or(object, "call", int64_t{-1});
  evidence.first_sample = whole_number_or(object, "first_sample", int64_t{0});
  evidence.num_samples = whole_number_or(object, "samples", int64_t{0});
  if (evidence.num_samples > 0 && evidence.first_sample > INT64_MAX - evidence.num_samples) {
    throw nlohmann::json::other_error::create(501, "first_sample + samples is above 2^63 - 1",
                                              &object);
  }
  evidence.watchdog = object.value("watchdog", "");
  if (object.contains("corruption")) evidence.corruption = corruption_in(object.at("corruption"));
  if (object.contains("was_first")) evidence.was_first = object.at("was_first").get<bool>();
  for (const Counter& counter : kCounters) {
    evidence.*counter.value = whole_number_or(object, counter.key, int64_t{0});
  }
  for (const Texts& texts : kTexts) {
    if (!object.contains(texts.key)) continue;
    evidence.*texts.value = object.at(texts.key).get<std::vector<std::string>>();
  }
  return evidence;
}

std::string samples_text(const FailureEvidence& evidence) {
  if (evidence.num_samples <= 0) return "";
  return fmt::format("samples {} to {}", evidence.first_sample,
                     evidence.first_sample + evidence.num_samples - 1);
}

std::string evidence_text(const FailureEvidence& evidence) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (evidence.signal != 0) add(fmt::format("signal {}", evidence.signal));
  if (evidence.exit_code) add(fmt::format("exit code {}", *evidence.exit_code));
  if (!evidence.phase.empty()) add("in phase " + evidence.phase);
  if (evidence.action >= 0) {
    const std::string& code = evidence.action_code;
    add(fmt::format("action {}{}{}", evidence.action, code.empty() ? "" : " ", code));
  }
  if (evidence.call >= 0) add(fmt::format("call {}", evidence.call));
  if (evidence.num_samples > 0) add(samples_text(evidence));
  if (evidence.corruption) add(corruption_text(*evidence.corruption));
  for (const Counter& counter : kCounters) {
    if (evidence.*counter.value != 0) {
      add(fmt::format("{} {}", counter.key, evidence.*counter.value));
    }
  }
  if (!evidence.watchdog.empty()) add(evidence.watchdog);
  return text;
}

}  // namespace trireme
