#pragma once

#include <span>
#include <vector>

#include "compile/run_plan.h"
#include "planner/diagnosis.h"
#include "predict/what_if.h"

namespace trireme {

// The diagnosis of a plan by its predicted times. `host` says what is available to the plans that
// are priced for the gains.
std::vector<StepFinding> diagnose_plan(const RunPlan& plan, const HostFacts& host,
                                       const Hardware& hardware);

// The disturbances of a plan as findings: stragglers, and slow links as sync. The gain of each is
// that of the step without it.
std::vector<StepFinding> diagnose_disturbed(const WhatIf& what_if);

// The measured step of a rank.
struct MeasuredStep {
  int position = 0;  // in the mesh
  StepTimes time;
};

// The diagnosis of a run by what its ranks have measured, [rank]; gains are predicted ones.
std::vector<StepFinding> diagnose_run(const RunPlan& plan, const HostFacts& host,
                                      const Hardware& hardware,
                                      std::span<const MeasuredStep> measured);

}  // namespace trireme
