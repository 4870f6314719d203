#include "failures/evidence_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

constexpr size_t kMostNamedRanks = 8;

using NamedRanks = std::vector<CorruptionAlarm::NamedRank>;

// The first rank of every host comes first.
NamedRanks by_hosts(const CorruptionAlarm& alarm) {
  NamedRanks firsts, others;
  for (const CorruptionAlarm::NamedRank& named : alarm.ranks) {
    const bool is_known = std::any_of(firsts.begin(), firsts.end(),
                                      [&](const auto& first) { return first.host == named.host; });
    (is_known ? others : firsts).push_back(named);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  return firsts;
}

// Throws nlohmann::json::exception if a key is missing or has another type.
CorruptionAlarm corruption_in(const nlohmann::json& object) {
  CorruptionAlarm alarm{.check = object.at("check").get<std::string>(),
                        .step = object.at("step").get<int64_t>(),
                        .ranks = {},
                        .is_certain = object.at("certain").get<bool>()};
  if (object.contains("clean_step")) alarm.clean_step = object.at("clean_step").get<int64_t>();
  for (const nlohmann::json& named : object.at("ranks")) {
    alarm.ranks.push_back({named.at("rank").get<int>(), named.at("host").get<std::string>()});
  }
  return alarm;
}

}  // namespace

nlohmann::ordered_json corruption_json(const CorruptionAlarm& alarm) {
  NamedRanks listed = by_hosts(alarm);
  listed.resize(std::min(listed.size(), kMostNamedRanks));
  auto ranks = nlohmann::ordered_json::array();
  for (const auto& [rank, host] : listed) ranks.push_back({{"rank", rank}, {"host", host}});
  nlohmann::ordered_json json = {{"check", alarm.check},
                                 {"step", alarm.step},
                                 {"ranks", std::move(ranks)},
                                 {"certain", alarm.is_certain}};
  if (alarm.clean_step) json["clean_step"] = *alarm.clean_step;
  return json;
}

std::string corruption_text(const CorruptionAlarm& alarm) {
  const NamedRanks named = by_hosts(alarm);
  std::string who = named.empty() ? "an unknown rank" : "";
  for (size_t i = 0; i < std::min(named.size(), kMostNamedRanks); ++i) {
    who += fmt::format("{}rank {} on host {}",
                       i == 0             ? ""
                       : alarm.is_certain ? " and "
                                          : " or ",
                       named[i].rank, named[i].host);
  }
  if (named.size() > kMostNamedRanks) who += " and others";
  return fmt::format("{} computed or held wrong numbers, as the check {} has found", who,
                     alarm.check);
}

nlohmann::ordered_json evidence_json(const FailureEvidence& evidence,
                                     const EvidenceLimits& limits) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!evidence.kind.empty()) json["kind"] = evidence.kind;
  if (evidence.exit_code) json["exit_code"] = *evidence.exit_code;
  if (evidence.signal != 0) json["signal"] = evidence.signal;
  if (!evidence.phase.empty()) json["phase"] = evidence.phase;
  if (evidence.action >= 0) json["action"] = evidence.action;
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
  if (object.contains("exit_code")) evidence.exit_code = object.at("exit_code").get<int>();
  evidence.signal = object.value("signal", 0);
  evidence.phase = object.value("phase", "");
  evidence.action = object.value("action", int64_t{-1});
  evidence.call = object.value("call", int64_t{-1});
  evidence.first_sample = object.value("first_sample", int64_t{0});
  evidence.num_samples = object.value("samples", int64_t{0});
  evidence.watchdog = object.value("watchdog", "");
  if (object.contains("corruption")) evidence.corruption = corruption_in(object.at("corruption"));
  if (object.contains("was_first")) evidence.was_first = object.at("was_first").get<bool>();
  for (const Counter& counter : kCounters) {
    evidence.*counter.value = object.value(counter.key, int64_t{0});
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
  if (evidence.action >= 0) add(fmt::format("action {}", evidence.action));
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
