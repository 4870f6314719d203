#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "compile/run_plan.h"
#include "data/token_source.h"
#include "train/engine.h"

namespace trireme {

// The results of a few steps of a plan, gathered from its ranks.
struct LayoutRun {
  std::vector<double> losses, grad_norms;
  std::vector<int64_t> valid_tokens;  // of every step
  std::map<std::string, std::vector<float>>
      first_moments;                                  // after one step: every gradient, scaled
  std::map<std::string, std::vector<float>> weights;  // after the last step
  // Summed "gradients" of router biases, if requested: how often every expert was visited.
  std::map<std::string, std::vector<float>> visits;
  std::vector<int64_t> expert_loads;   // of all steps, as in StepResult::expert_loads
  std::vector<int64_t> router_losses;  // of all steps
  std::vector<double> ahead_losses;    // of all steps, as in StepResult::ahead_loss_sum
  std::vector<float> largest_logits;   // of all steps, as in StepResult::largest_logits
  double val_loss = 0.0;
  int64_t num_rollbacks = 0;                  // of all ranks
  int64_t num_begun_ahead = 0;                // steps begun before Validate, over all ranks
  int64_t num_dropped_ahead = 0;              // of these, how many were dropped
  std::map<std::string, int64_t> sent_bytes;  // by axis, over all ranks and steps
  std::string differences;  // between the plan and the measurements of the ranks; "": none
};

struct RunSteps {
  int first = 0;
  int end = 5;
  std::string load_from;                // a checkpoint; "": initial parameters
  std::string save_to;                  // a folder of checkpoints; "": none
  const TokenSource* source = nullptr;  // null: every target is valid
  double lr = 1e-2;
  bool runs_ahead = true;  // each step knows the next one
  bool reads_visits = false;
  bool evaluates = true;  // after the last step
  NodeMap nodes = 0;      // which ranks share memory
  // The RankPlans to execute, [position]; null: those of the plan.
  const std::vector<RankPlan>* ranks = nullptr;
  CallHook call_hook = {};
};

// Runs the ranks as threads. Throws the failure that ends a rank.
LayoutRun run_layout(const RunPlan& plan, const RunSteps& steps = {});

// Returns the place of the i-th owned element in the whole parameter.
int64_t global_element(const OwnedTensors& owned, int64_t i);

// Returns "" if both runs have the same bits, or what differs first.
std::string difference(const LayoutRun& a, const LayoutRun& b);

}  // namespace trireme
