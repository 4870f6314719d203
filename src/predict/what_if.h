#pragma once

#include <memory>
#include <string>
#include <vector>

#include "predict/disturbed_step.h"

namespace trireme {

// One disturbance, and what it costs.
struct Cause {
  std::string option;  // of `trireme plan`, such as "--slow-rank 5=1.3"
  std::string what;    // such as "Rank 5 computes 1.3 times as long"
  std::string remedy;  // such as "free the host of rank 5 of other work, or replace its device"
  bool is_of_links = false;
  double alone_s = 0.0;    // the step if there is no other disturbance
  double without_s = 0.0;  // the step if all others remain
};

// Ranks that wait longer because of the disturbances, and for what: means of one step, in seconds.
struct WaitingRanks {
  std::string who;  // such as "other stages of a slow rank's pipeline"
  int num_ranks = 0;
  double in_transfers_s = 0.0;  // that nothing hides, over slower links
  double in_layers_s = 0.0;
  double for_stages_s = 0.0;
  double at_end_s = 0.0;

  double total_s() const { return in_transfers_s + in_layers_s + for_stages_s + at_end_s; }
};

// What disturbances do to a step.
struct WhatIf {
  double undisturbed_s = 0.0;
  std::vector<Cause> causes;                 // ranks by position, then links by name, then jitter
  std::vector<WaitingRanks> waiting;         // the nearest to a slow rank first
  std::shared_ptr<const PricedPlan> priced;  // read by `step`
  std::shared_ptr<ExtraTimes> extra;         // read by `step`
  std::unique_ptr<const DisturbedStep> step;

  double step_s() const { return step->step_s(); }
};

// `plan` must outlive the result, which does not depend on the order of the disturbances. Usage
// errors: those of check_disturbances and price_plan.
Result<WhatIf> what_if(const RunPlan& plan, const Hardware& hardware, Disturbances disturbances);

}  // namespace trireme
