#include "sweep/sweep_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/json_number.h"
#include "base/json_text.h"
#include "base/sealed_json.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr std::string_view kStateNames[] = {"waiting", "running",  "finished",
                                            "stopped", "diverged", "failed"};

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json numbers_json(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number_or_null(value));
  return json;
}

Json trial_json(const SweepRecord& record, size_t index) {
  const SweepTrial& trial = record.trials[index];
  Json values = Json::object();
  for (size_t i = 0; i < record.spec.keys.size(); ++i) {
    values[record.spec.keys[i].key] = trial.point[i];
  }
  return {{"trial", trial_name(index)},
          {"values", values},
          {"state", name_of(trial.state)},
          {"steps", trial.steps},
          {"loss", number_or_null(trial.loss)},
          {"val_loss", number_or_null(trial.val_loss)},
          {"val_step", trial.val_step},
          {"rungs", numbers_json(trial.rungs)},
          {"reason", trial.reason}};
}

Json spec_json(const SweepSpec& spec) {
  Json over = Json::array();
  for (const SweptKey& key : spec.keys) over.push_back({{"key", key.key}, {"spec", key.spec}});
  const Json config = parse_ordered_json_or_discard(spec.config);
  Json json = {
      {"files", spec.files},
      {"set", spec.overrides},
      {"over", over},
      {"random", spec.random ? Json(*spec.random) : Json(nullptr)},
      {"seed", spec.seed},
      {"early_stop", spec.stops_early},
      {"grace", spec.grace},
      {"lr_range", spec.lr_range ? Json{{"from", spec.lr_range->from}, {"to", spec.lr_range->to}}
                                 : Json(nullptr)},
      {"total_steps", spec.total_steps},
      {"config", config.is_discarded() ? Json::object() : config}};
  if (!spec.resume.empty()) json["resume"] = spec.resume;
  return json;
}

Json finding_json(const LrFinding& finding) {
  return {{"steepest_lr", number_or_null(finding.steepest_lr)},
          {"diverged_lr", number_or_null(finding.diverged_lr)},
          {"diverged_step", finding.diverged_step},
          {"suggested_lr", number_or_null(finding.suggested_lr())}};
}

// The readers below throw nlohmann's exceptions, or std::string with what is wrong.
std::optional<double> optional_in(const nlohmann::json& json, const char* key) {
  const nlohmann::json& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

int64_t steps_in(const nlohmann::json& json, const char* key) {
  const auto steps = whole_number<int64_t>(json.at(key));
  if (steps < 0 || steps > kMostSteps)
    throw fmt::format("{} = {} is no number of steps", key, steps);
  return steps;
}

SweepSpec read_spec(const nlohmann::json& json) {
  SweepSpec spec;
  spec.files = json.at("files").get<std::vector<std::string>>();
  spec.overrides = json.at("set").get<std::vector<std::string>>();
  spec.resume = json.value("resume", "");
  for (const nlohmann::json& over : json.at("over")) {
    const std::string text =
        fmt::format("{}={}", over.at("key").get<std::string>(), over.at("spec").get<std::string>());
    Result<SweptKey> key = parse_swept_key(text);
    if (!key.ok()) throw key.error().message;
    spec.keys.push_back(std::move(*key));
  }
  if (!json.at("random").is_null()) spec.random = whole_number<int64_t>(json.at("random"));
  spec.seed = whole_number<uint64_t>(json.at("seed"));
  spec.stops_early = json.at("early_stop").get<bool>();
  spec.grace = json.at("grace").get<double>();
  const nlohmann::json& range = json.at("lr_range");
  if (!range.is_null()) {
    spec.lr_range = LrRange{range.at("from").get<double>(), range.at("to").get<double>()};
  }
  spec.total_steps = steps_in(json, "total_steps");
  spec.config = json_text(json.at("config"));
  return spec;
}

TrialState state_in(const nlohmann::json& json) {
  const auto name = json.at("state").get<std::string>();
  const auto* found = std::find(std::begin(kStateNames), std::end(kStateNames), name);
  if (found == std::end(kStateNames)) throw fmt::format("\"{}\" is no state of a trial", name);
  return TrialState(found - std::begin(kStateNames));
}

SweepTrial read_trial(const nlohmann::json& json, const std::vector<SweptKey>& keys) {
  SweepTrial trial;
  for (const SweptKey& key : keys) {
    trial.point.push_back(json.at("values").at(key.key).get<std::string>());
  }
  trial.state = state_in(json);
  trial.steps = steps_in(json, "steps");
  trial.loss = optional_in(json, "loss");
  trial.val_loss = optional_in(json, "val_loss");
  trial.val_step = steps_in(json, "val_step");
  for (const nlohmann::json& rung : json.at("rungs")) {
    trial.rungs.push_back(rung.is_null() ? std::nan("") : rung.get<double>());
  }
  trial.reason = json.at("reason").get<std::string>();
  return trial;
}

LrFinding read_finding(const nlohmann::json& json) {
  return {.steepest_lr = optional_in(json, "steepest_lr"),
          .diverged_lr = optional_in(json, "diverged_lr"),
          .diverged_step = whole_number<int64_t>(json.at("diverged_step"))};
}

// The values of a resolved configuration by "section.key".
std::map<std::string, std::string> settings_in(const std::string& config) {
  std::map<std::string, std::string> settings;
  const auto json = parse_json_or_discard(config);
  if (!json.is_object()) return settings;
  for (const auto& [section, entries] : json.items()) {
    if (!entries.is_object()) continue;
    for (const auto& [key, value] : entries.items())
      settings[section + "." + key] = json_text(value);
  }
  return settings;
}

std::string config_difference(const std::string& recorded, const std::string& given) {
  const auto before = settings_in(recorded), now = settings_in(given);
  if (before == now) return "";
  for (const auto& [key, value] : now) {
    const auto found = before.find(key);
    const std::string old = found == before.end() ? "absent" : found->second;
    if (old != value) return fmt::format("{} was {} and is {} now", key, old, value);
  }
  return "a key of the configuration is gone";
}

std::string over_text(const SweepSpec& spec) {
  if (spec.lr_range) {
    return fmt::format("--lr-range {}..{}", number_text(spec.lr_range->from),
                       number_text(spec.lr_range->to));
  }
  std::string text;
  for (const SweptKey& key : spec.keys) {
    text += fmt::format("{}--over {}={}", text.empty() ? "" : " ", key.key, key.spec);
  }
  return text;
}

std::string random_text(const SweepSpec& spec) {
  return spec.random ? fmt::format("--random {}", *spec.random) : "the whole grid";
}

}  // namespace

std::string_view name_of(TrialState state) { return kStateNames[size_t(state)]; }

std::string trial_name(size_t index) { return fmt::format("trial-{:03}", index + 1); }

bool SweepRecord::is_done() const {
  return std::none_of(trials.begin(), trials.end(), [](const SweepTrial& trial) {
    return trial.state == TrialState::Waiting || trial.state == TrialState::Running;
  });
}

std::vector<size_t> SweepRecord::ranking() const {
  std::vector<size_t> order;
  for (const TrialState state : {TrialState::Finished, TrialState::Stopped, TrialState::Diverged,
                                 TrialState::Failed, TrialState::Running, TrialState::Waiting}) {
    std::vector<size_t> alike;
    bool all_validated = true;
    for (size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].state != state) continue;
      alike.push_back(i);
      all_validated = all_validated && trials[i].val_loss.has_value();
    }
    const bool has_result = state == TrialState::Finished || state == TrialState::Stopped;
    if (has_result) {
      std::stable_sort(alike.begin(), alike.end(), [&](size_t a, size_t b) {
        const auto& of_a = all_validated ? trials[a].val_loss : trials[a].loss;
        const auto& of_b = all_validated ? trials[b].val_loss : trials[b].loss;
        if (of_a.has_value() != of_b.has_value()) return of_a.has_value();
        return of_a.has_value() && *of_a < *of_b;
      });
    }
    order.insert(order.end(), alike.begin(), alike.end());
  }
  return order;
}

std::optional<size_t> SweepRecord::best() const {
  const std::vector<size_t> order = ranking();
  if (order.empty() || trials[order.front()].state != TrialState::Finished) return std::nullopt;
  return order.front();
}

std::string sweep_json(const SweepRecord& record) {
  Json trials = Json::array();
  for (size_t i = 0; i < record.trials.size(); ++i) trials.push_back(trial_json(record, i));
  const std::optional<size_t> best = record.best();
  Json json = {{"sweep", spec_json(record.spec)},
               {"trials", std::move(trials)},
               {"best", best ? Json(trial_name(*best)) : Json(nullptr)},
               {"finding", record.spec.lr_range ? finding_json(record.finding) : Json(nullptr)}};
  return seal_json(lenient_json_text(json, 1));
}

Result<SweepRecord> parse_sweep_json(std::string_view text) {
  TRIREME_TRY_DONE(check_seal(text));
  TRIREME_TRY(json, parse_bounded_json(text, {.members = limits::kOrderedMembers}));
  SweepRecord record;
  try {
    record.spec = read_spec(json.at("sweep"));
    for (const nlohmann::json& trial : json.at("trials")) {
      record.trials.push_back(read_trial(trial, record.spec.keys));
    }
    if (!json.at("finding").is_null()) record.finding = read_finding(json.at("finding"));
  } catch (const nlohmann::json::exception& failure) {
    return damaged(json_problem(failure.what()));
  } catch (const std::string& problem) {
    return damaged(problem);
  }
  if (record.trials.empty() || record.trials.size() > size_t(kMostTrials)) {
    return damaged(
        fmt::format("has {} trials; a sweep has 1 to {}", record.trials.size(), kMostTrials));
  }
  return record;
}

namespace {

std::string resume_text(const SweepSpec& spec) {
  return spec.resume.empty() ? "initial weights" : "--resume " + spec.resume;
}

}  // namespace

std::string difference_of(const SweepSpec& recorded, const SweepSpec& given) {
  const auto differ = [](const std::string& before, const std::string& now) {
    return before == now ? "" : fmt::format("it is about {}, and not about {}", before, now);
  };
  for (const std::string& difference :
       {differ(over_text(recorded), over_text(given)),
        differ(random_text(recorded), random_text(given)),
        differ(resume_text(recorded), resume_text(given)),
        differ(fmt::format("--seed {}", recorded.seed), fmt::format("--seed {}", given.seed)),
        differ(recorded.stops_early ? "early stopping" : "--no-early-stop",
               given.stops_early ? "early stopping" : "--no-early-stop"),
        differ(fmt::format("--grace {}", recorded.grace), fmt::format("--grace {}", given.grace)),
        config_difference(recorded.config, given.config)}) {
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace trireme
