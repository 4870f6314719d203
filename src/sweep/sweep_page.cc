#include "sweep/sweep_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/units.h"
#include "observe/report_page.h"
#include "sweep/median_rule.h"
#include "sweep/repeat_command.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostPoints = 40000;      // of all curves together
constexpr size_t kMostCurvePoints = 1000;  // of one; a screen cannot show more

Json known_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

// Returns [x, y] of every n-th step and of the last one, without those that are not finite.
Json thinned(const std::vector<double>& xs, const std::vector<double>& ys, size_t most) {
  Json points = Json::array();
  const size_t every = ys.size() / most + 1;
  for (size_t i = 0; i < ys.size(); ++i) {
    if ((i % every == 0 || i + 1 == ys.size()) && std::isfinite(ys[i])) {
      points.push_back({xs[i], ys[i]});
    }
  }
  return points;
}

std::vector<double> steps_of(int64_t first, size_t count) {
  std::vector<double> steps(count);
  for (size_t i = 0; i < count; ++i) steps[i] = double(first) + double(i);
  return steps;
}

Json trial_view(const SweepRecord& record, size_t index, const TrialCurve& curve) {
  const SweepTrial& trial = record.trials[index];
  const size_t most = std::clamp(kMostPoints / record.trials.size(), size_t{50}, kMostCurvePoints);
  // A trial that is stopped trains one more step, which is not judged (TrialWatch).
  const bool was_decided =
      trial.state == TrialState::Stopped || trial.state == TrialState::Diverged;
  std::vector<double> losses = curve.losses();
  const auto judged = size_t(std::max<int64_t>(0, trial.steps - curve.first_step() + 1));
  if (was_decided && losses.size() > judged) losses.resize(judged);
  Json validations = Json::array();
  for (const TrialCurve::Validation& one : curve.validations()) {
    const bool is_judged = !was_decided || one.step <= trial.steps;
    if (is_judged && std::isfinite(one.loss)) validations.push_back({one.step, one.loss});
  }
  return {{"name", trial_name(index)},
          {"values", trial.point},
          {"state", name_of(trial.state)},
          {"steps", trial.steps},
          {"loss", known_number(trial.loss)},
          {"val_loss", known_number(trial.val_loss)},
          {"val_step", trial.val_step},
          {"reason", trial.reason},
          {"set", set_options(record.spec, trial.point)},
          {"curve", thinned(steps_of(curve.first_step(), losses.size()), losses, most)},
          {"validations", std::move(validations)}};
}

Json key_view(const SweptKey& key) {
  return {{"key", key.key},
          {"spec", key.spec},
          {"log", key.spacing == Spacing::Log},
          {"values", key.values}};
}

Json range_view(const SweepRecord& record, const TrialCurve& curve) {
  const std::vector<double> smoothed = smoothed_losses(curve, record.spec.total_steps);
  const LrFinding& finding = record.finding;
  return {{"losses", thinned(curve.lrs(), curve.losses(), kMostCurvePoints)},
          {"smoothed", thinned(curve.lrs(), smoothed, kMostCurvePoints)},
          {"steepest_lr", known_number(finding.steepest_lr)},
          {"diverged_lr", known_number(finding.diverged_lr)},
          {"suggested_lr", known_number(finding.suggested_lr())}};
}

std::string subtitle_of(const SweepRecord& record) {
  const SweepSpec& spec = record.spec;
  if (spec.lr_range) {
    return fmt::format(
        "Learning-rate range test: the rate rises from {} to {} by the same factor "
        "in each of {} steps",
        number_text(spec.lr_range->from), number_text(spec.lr_range->to), spec.total_steps);
  }
  std::string over;
  for (const SweptKey& key : spec.keys) {
    over += fmt::format("{}{} = {}", over.empty() ? "" : ", ", key.key, key.spec);
  }
  std::string text =
      spec.random ? fmt::format("{} random points (seed {}) of {}", *spec.random, spec.seed, over)
                  : "Every combination of " + over;
  if (!spec.stops_early) return text + "; no trial is stopped early";
  return fmt::format(
      "{}; after {:.0f} % of the steps, a trial is stopped if its loss is above the "
      "median of the former trials",
      text, 100.0 * spec.grace);
}

int64_t count_of(const SweepRecord& record, TrialState state) {
  return std::count_if(record.trials.begin(), record.trials.end(),
                       [state](const SweepTrial& trial) { return trial.state == state; });
}

Json facts_of(const SweepRecord& record) {
  Json facts = Json::array();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.push_back({name, value});
  };
  const auto add_count = [&](const char* name, TrialState state) {
    const int64_t count = count_of(record, state);
    add(name, count > 0 ? std::to_string(count) : "");
  };
  if (record.spec.lr_range) {
    const auto rate = [](const std::optional<double>& lr) {
      return lr ? fmt::format("{:.2g}", *lr) : std::string("–");
    };
    add("steepest descent at", rate(record.finding.steepest_lr));
    add("diverged at", rate(record.finding.diverged_lr));
    add("suggested rate", rate(record.finding.suggested_lr()));
    add("steps", std::to_string(record.trials.front().steps));
    return facts;
  }
  add("trials", std::to_string(record.trials.size()));
  add_count("finished", TrialState::Finished);
  add_count("stopped early", TrialState::Stopped);
  add_count("diverged", TrialState::Diverged);
  add_count("failed", TrialState::Failed);
  int64_t steps = 0;
  for (const SweepTrial& trial : record.trials) steps += trial.steps;
  const double all = double(record.spec.total_steps) * double(record.trials.size());
  add("steps trained", all > 0.0 && record.is_done()
                           ? fmt::format("{:.0f} %", 100.0 * double(steps) / all)
                           : std::to_string(steps));
  if (const std::optional<size_t> best = record.best()) {
    const SweepTrial& trial = record.trials[*best];
    add("best", trial_name(*best));
    add(trial.val_loss ? "its validation loss" : "its loss",
        format_fixed(trial.val_loss.value_or(trial.loss.value_or(0.0)), 4));
  }
  return facts;
}

// Returns the lines of a shell that train the best trial again, from any folder.
std::string repeat_lines(const SweepRecord& record, size_t best, const SweepPlace& place) {
  const std::string command = repeat_command(record, best, place.program);
  if (command.empty()) return "";
  return fmt::format("cd {}\n{} --out {}", shell_word(place.started_in), command,
                     shell_word(place.folder + "-best"));
}

}  // namespace

std::string sweep_page(const SweepRecord& record, const std::vector<TrialCurve>& curves,
                       const SweepPlace& place) {
  const SweepSpec& spec = record.spec;
  Json trials = Json::array(), keys = Json::array();
  for (size_t i = 0; i < record.trials.size(); ++i) {
    trials.push_back(trial_view(record, i, curves[i]));
  }
  for (const SweptKey& key : spec.keys) keys.push_back(key_view(key));
  const std::optional<size_t> best = record.best();
  const bool has_range = spec.lr_range.has_value();
  Json view = {{"name", std::filesystem::path(place.folder).filename().string()},
               {"subtitle", subtitle_of(record)},
               {"facts", facts_of(record)},
               {"keys", std::move(keys)},
               {"trials", std::move(trials)},
               {"ranking", record.ranking()},
               {"best", best ? Json(*best) : Json(nullptr)},
               {"repeat", best || has_range ? repeat_lines(record, best.value_or(0), place) : ""},
               {"range", has_range ? range_view(record, curves.front()) : Json(nullptr)}};
  if (spec.stops_early && spec.total_steps > 0) {
    const MedianRule rule(spec.total_steps, spec.grace);
    view["grace_step"] = rule.rungs().empty() ? Json(nullptr) : Json(rule.rungs().front());
  }
  return report_page(lenient_json_text(Json{{"sweep", std::move(view)}}));
}

}  // namespace trireme
