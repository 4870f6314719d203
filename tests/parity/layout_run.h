#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/token_source.h"
#include "planner/run_plan.h"

namespace trireme {

// All that a few steps of a plan leave behind, gathered from its ranks.
struct LayoutRun {
  std::vector<double> losses, grad_norms;
  std::vector<int64_t> valid_tokens;                        // of every step
  std::map<std::string, std::vector<float>> first_moments;  // after step 1: every gradient, scaled
  std::map<std::string, std::vector<float>> weights;        // after the last step
  std::vector<int64_t> expert_loads;  // of all steps, StepResult::expert_loads
  double val_loss = 0.0;
  int64_t num_rollbacks = 0;      // of all ranks
  int64_t num_begun_ahead = 0;    // steps of all ranks
  int64_t num_dropped_ahead = 0;  // of those
  std::string differences;        // between what was planned and what the ranks measured; "": none
};

struct RunSteps {
  int first = 0;
  int end = 5;
  std::string load_from;                // checkpoint; "": initial parameters
  std::string save_to;                  // folder of checkpoints; "": none
  const TokenSource* source = nullptr;  // null: every target is valid
  bool runs_ahead = true;               // each step is told of the next
};

// Runs the ranks as threads. Throws what ends a rank.
LayoutRun run_layout(const RunPlan& plan, const RunSteps& steps = {});

// "" where both left the same bits, or what differs first.
std::string difference(const LayoutRun& a, const LayoutRun& b);

}  // namespace trireme
