#pragma once

#include <vector>

#include "predict/disturbances.h"
#include "predict/extra_times.h"
#include "predict/predict.h"

namespace trireme {

// A plan with its prices on one machine, from which disturbed steps are simulated.
struct PricedPlan {
  const RunPlan& plan;
  Costs costs;  // of the schedule of one pipeline, collectives included
  // [stage] kernels alone, with the sums of gradients in W, for one micro-batch of one lane
  std::vector<StageTimes> compute;
  DeviceTimes devices = {};       // of a mixed cluster; compute is that of its fastest devices
  std::vector<StepTimes> stages;  // [pp] the undisturbed step
  double makespan_s = 0.0;        // of an undisturbed pipeline

  double step_s() const;  // of the slowest rank, if all had the fastest devices
};
// `plan` must outlive the result. Usage error if the workers of the plan do not wait for each other
// (parallel.staleness); an error if the schedule hangs.
Result<PricedPlan> price_plan(const RunPlan& plan, const Hardware& hardware);

// Returns the steps of the ranks of a mixed cluster, [mesh position], by the devices of all of
// them. Numbers the kinds of their pipelines in `kinds`, [mesh position], if it is not null. Empty
// if the schedule hangs.
std::vector<StepTimes> predict_mixed_ranks(const RunPlan& plan, const Hardware& hardware,
                                           std::vector<int>* kinds = nullptr);

// Where the time of a rank goes in a disturbed step. The parts add up to the step.
struct RankSpent {
  double busy_s = 0.0;        // its kernels and its collectives inside layers
  double in_layers_s = 0.0;   // waits for slower ranks that share its layers
  double for_stages_s = 0.0;  // waits for other stages: the bubble, and messages on their way
  double tail_s = 0.0;        // exposed collectives of dp, sums in Step, and its update
  double at_end_s = 0.0;      // waits for other pipelines, and for longer updates
};

// A step in which some ranks compute more slowly than predicted or than the fastest device of a
// mixed cluster, or in which all times vary. It is simulated for all ranks:
//
// * Ranks of one stage that are together (Pipelines) take every action for the compute time of the
//   slowest of them, and the collectives inside.
// * A stage waits for the messages of its neighbours (sim/simulate.h).
// * Pipelines meet at the end of the step, so the longest one decides. The exposed time of
//   collectives over dp is that of the undisturbed step.
//
// Pipelines of one kind in which no rank is disturbed are alike, and are not simulated again. A
// slower rank never makes the step shorter; if nothing is disturbed, step_s() has the bits of
// PricedPlan::step_s().
class DisturbedStep {
 public:
  // `priced` and `extra` must outlive the step. Slow links must be in the prices already
  // (with_slow_links).
  DisturbedStep(const PricedPlan& priced, const std::vector<SlowedRank>& slow, ExtraTimes& extra);

  double step_s() const { return step_s_; }
  const std::vector<RankSpent>& ranks() const { return ranks_; }  // [mesh position]
  // The rank that computes longest, and the one that half of all ranks compute at most as long as.
  // Ranks that are alike are told apart by their positions.
  int slowest() const { return by_busy_.back(); }
  int median() const { return by_busy_[by_busy_.size() / 2]; }
  const Pipelines& pipelines() const { return extra_.pipelines(); }
  // The step of a rank, up to its own end: PricedPlan::stages with what is longer for it.
  StepTimes times(int position) const;
  // When the actions of the rank's schedule (RunPlan::schedule) run, and behind them Step.
  std::vector<Span> timeline(int position) const;

 private:
  PipelineExtra extra_of(int pipeline) const;
  Simulation simulate_pipeline(const PipelineExtra& extra) const;
  void spend(int pipeline, const PipelineExtra& extra, const Simulation& simulation);
  void end_step();

  const PricedPlan& priced_;
  ExtraTimes& extra_;
  std::vector<double> factors_;         // [mesh position]
  std::vector<bool> has_slow_rank_;     // [pipeline]
  std::vector<double> makespan_s_;      // [pipeline]
  std::vector<double> update_extra_s_;  // [mesh position]
  std::vector<double> own_extra_s_;     // [mesh position] of its kernels
  std::vector<RankSpent> ranks_;
  std::vector<int> by_busy_;  // positions
  double longest_s_ = 0.0;    // of makespan_s_
  double step_s_ = 0.0;
};

}  // namespace trireme
