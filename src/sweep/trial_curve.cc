#include "sweep/trial_curve.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/json_text.h"
#include "observe/metrics_segments.h"

namespace trireme {
namespace {

// No run has more steps, and products of them with small numbers do not overflow.
constexpr int64_t kMostFirstStep = int64_t{1} << 40;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double number_or_unknown(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : kUnknown;
}

void add_line(const nlohmann::json& line, int64_t last_step, TrialCurve& curve) {
  const auto event = line.find("event");
  const auto step = line.find("step");
  if (event == line.end() || step == line.end() || !step->is_number_integer()) return;
  const auto number = step->get<int64_t>();
  if (number > last_step) return;
  // A trial writes every step from its first one on; text of others may name any.
  const bool is_first = curve.losses().empty();
  const bool may_follow = is_first ? number <= kMostFirstStep : number <= curve.last_step() + 1;
  if (*event == "train" && number >= 1 && may_follow) {
    curve.add_step(number, number_or_unknown(line, "loss"), number_or_unknown(line, "lr"));
  }
  if (*event == "eval") curve.add_validation(number, number_or_unknown(line, "val_loss"));
}

}  // namespace

void TrialCurve::add_step(int64_t step, double loss, double lr) {
  if (losses_.empty() || step < first_step_) first_step_ = step;
  losses_.resize(size_t(step - first_step_), kUnknown);
  lrs_.resize(size_t(step - first_step_), kUnknown);
  losses_.push_back(std::isfinite(loss) ? loss : kUnknown);
  lrs_.push_back(lr);
  std::erase_if(validations_, [step](const Validation& one) { return one.step >= step; });
}

void TrialCurve::add_validation(int64_t step, double loss) { validations_.push_back({step, loss}); }

TrialCurve::Validation TrialCurve::best_validation(int64_t last_step) const {
  Validation best;
  for (const Validation& one : validations_) {
    if (one.step > last_step) continue;
    if (std::isfinite(one.loss) && (best.step == 0 || one.loss < best.loss)) best = one;
  }
  return best;
}

double TrialCurve::mean_loss(int64_t step, int64_t window) const {
  const int64_t end = std::min(step, last_step()) - first_step_ + 1;
  const int64_t begin = std::max<int64_t>(0, end - window);
  double sum = 0.0;
  for (int64_t i = begin; i < end; ++i) sum += losses_[size_t(i)];
  return end > begin ? sum / double(end - begin) : kUnknown;
}

TrialCurve parse_trial_curve(std::string_view metrics, int64_t last_step) {
  TrialCurve curve;
  size_t begin = 0;
  for (size_t end = metrics.find('\n'); end != metrics.npos; end = metrics.find('\n', begin)) {
    const std::string_view line = metrics.substr(begin, end - begin);
    begin = end + 1;
    if (!check_json_limits(line).ok()) continue;
    const auto json = parse_json_or_discard(line);
    if (json.is_object()) add_line(json, last_step, curve);
  }
  return curve;
}

Result<TrialCurve> read_trial_curve(const std::string& run_dir, int64_t last_step) {
  const std::string path = run_dir + "/metrics.jsonl";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return TrialCurve();
  TRIREME_TRY(text, read_metrics(path));
  return parse_trial_curve(text, last_step);
}

}  // namespace trireme
