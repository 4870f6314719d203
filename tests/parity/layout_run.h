#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "compile/run_plan.h"
#include "data/token_source.h"

namespace trireme {

// All that a few steps of a plan leave behind, gathered from its ranks.
struct LayoutRun {
  std::vector<double> losses, grad_norms;
  std::vector<int64_t> valid_tokens;  // of every step
  std::map<std::string, std::vector<float>>
      first_moments;                                  // after one step: every gradient, scaled
  std::map<std::string, std::vector<float>> weights;  // after the last step
  // Summed "gradients" of router biases, where asked for: how often every expert was visited.
  std::map<std::string, std::vector<float>> visits;
  std::vector<int64_t> expert_loads;   // of all steps, StepResult::expert_loads
  std::vector<int64_t> router_losses;  // likewise
  double val_loss = 0.0;
  int64_t num_rollbacks = 0;                  // of all ranks
  int64_t num_begun_ahead = 0;                // steps of all ranks
  int64_t num_dropped_ahead = 0;              // of those
  std::map<std::string, int64_t> sent_bytes;  // by axis, of all ranks and steps
  std::string differences;  // between what was planned and what the ranks measured; "": none
};

struct RunSteps {
  int first = 0;
  int end = 5;
  std::string load_from;                // checkpoint; "": initial parameters
  std::string save_to;                  // folder of checkpoints; "": none
  const TokenSource* source = nullptr;  // null: every target is valid
  bool runs_ahead = true;               // each step is told of the next
  bool reads_visits = false;
  bool evaluates = true;   // after the last one
  int ranks_per_node = 0;  // that see each other's memory; 0: all
  // What the ranks execute, [position]; null: what the plan has.
  const std::vector<RankPlan>* ranks = nullptr;
  CallHook call_hook = {};
};

// Runs the ranks as threads. Throws what ends a rank.
LayoutRun run_layout(const RunPlan& plan, const RunSteps& steps = {});

// "" where both left the same bits, or what differs first.
std::string difference(const LayoutRun& a, const LayoutRun& b);

}  // namespace trireme
