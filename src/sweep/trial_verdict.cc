#include "sweep/trial_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "sweep/lr_range.h"

namespace trireme {
namespace {

// Returns 0 if all losses are finite.
int64_t first_lost_step(const TrialCurve& curve) {
  const std::vector<double>& losses = curve.losses();
  const auto lost = std::find_if_not(losses.begin(), losses.end(),
                                     [](double loss) { return std::isfinite(loss); });
  return lost == losses.end() ? 0 : curve.first_step() + (lost - losses.begin());
}

// A range test that has diverged has shown what it can show.
std::optional<TrialVerdict> range_verdict(const TrialCurve& curve, int64_t total_steps) {
  const LrFinding finding = find_lr(curve, total_steps);
  if (finding.diverged_step == 0) return std::nullopt;
  return TrialVerdict{TrialState::Finished, finding.diverged_step,
                      fmt::format("the loss diverges at step {}", finding.diverged_step)};
}

std::optional<TrialVerdict> hopeless_verdict(const TrialCurve& curve, const TrialRules& rules) {
  if (!rules.rule) return std::nullopt;
  const std::vector<double> losses = rules.rule->losses_at_rungs(curve);
  const std::optional<size_t> rung = rules.rule->hopeless_rung(losses, rules.former);
  if (!rung) return std::nullopt;
  return TrialVerdict{
      TrialState::Stopped, rules.rule->rungs()[*rung],
      fmt::format("its loss of {} at step {} is above the median of the former trials",
                  format_fixed(losses[*rung], 4), rules.rule->rungs()[*rung])};
}

}  // namespace

std::optional<TrialVerdict> verdict_of(const TrialCurve& curve, const TrialRules& rules) {
  if (rules.is_range_test) return range_verdict(curve, rules.total_steps);
  const int64_t lost = first_lost_step(curve);
  std::optional<TrialVerdict> hopeless = hopeless_verdict(curve, rules);
  if (lost > 0 && (!hopeless || lost <= hopeless->step)) {
    return TrialVerdict{TrialState::Diverged, lost,
                        fmt::format("its loss is not finite at step {}", lost)};
  }
  return hopeless;
}

bool may_decide(const TrialCurve& curve, const TrialRules& rules) {
  const int64_t step = curve.last_step();
  if (step == 0) return false;
  if (!std::isfinite(curve.losses().back())) return true;
  if (rules.is_range_test) return step % MedianRule(rules.total_steps, 0.0).window() == 0;
  return rules.rule &&
         std::binary_search(rules.rule->rungs().begin(), rules.rule->rungs().end(), step);
}

void conclude_trial(const TrialCurve& curve, const TrialRules& rules,
                    const std::optional<TrialVerdict>& verdict, SweepTrial& trial) {
  trial.state = verdict ? verdict->state : TrialState::Finished;
  trial.reason = verdict ? verdict->reason : "";
  trial.steps = verdict ? verdict->step : curve.last_step();
  trial.loss.reset();
  trial.val_loss.reset();
  trial.val_step = 0;
  trial.rungs.clear();
  const double loss = curve.mean_loss(trial.steps, MedianRule(rules.total_steps, 0.0).window());
  if (std::isfinite(loss) && trial.state != TrialState::Diverged) trial.loss = loss;
  if (const auto best = curve.best_validation(trial.steps); best.step > 0) {
    trial.val_loss = best.loss;
    trial.val_step = best.step;
  }
  if (!rules.rule) return;
  trial.rungs = rules.rule->losses_at_rungs(curve);
  const std::vector<int64_t>& rungs = rules.rule->rungs();
  const auto known = std::upper_bound(rungs.begin(), rungs.end(), trial.steps) - rungs.begin();
  trial.rungs.resize(std::min(trial.rungs.size(), size_t(known)));
}

}  // namespace trireme
