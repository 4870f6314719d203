#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sweep/median_rule.h"
#include "sweep/sweep_record.h"
#include "sweep/trial_curve.h"

namespace trireme {

// By what a trial is judged while it trains.
struct TrialRules {
  int64_t total_steps = 0;                       // of the trial
  std::optional<MedianRule> rule;                // absent: it is not compared with others
  std::vector<std::vector<double>> former = {};  // losses of former trials at the rungs
  bool is_range_test = false;
};

// The trial ends before its last step.
struct TrialVerdict {
  TrialState state = TrialState::Stopped;
  int64_t step = 0;  // that has decided it
  std::string reason;
};

// Judges a curve. The verdict depends on the recorded numbers alone, and a longer curve has the
// same one. nullopt: the trial goes on.
std::optional<TrialVerdict> verdict_of(const TrialCurve& curve, const TrialRules& rules);

// True if verdict_of() may say something else than after the step before.
bool may_decide(const TrialCurve& curve, const TrialRules& rules);

// Writes into `trial` what the curve shows of a trial that has ended: by `verdict`, or by itself.
void conclude_trial(const TrialCurve& curve, const TrialRules& rules,
                    const std::optional<TrialVerdict>& verdict, SweepTrial& trial);

}  // namespace trireme
