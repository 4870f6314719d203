#pragma once

#include <vector>

#include "predict/disturbances.h"
#include "predict/predict.h"

namespace trireme {

// A plan with its prices on one machine, from which disturbed steps are simulated.
struct PricedPlan {
  const RunPlan& plan;
  Costs costs;                      // of the schedule of one pipeline, collectives included
  std::vector<StageTimes> compute;  // [stage] kernels alone, for one micro-batch
  std::vector<StepTimes> stages;    // [pp] the undisturbed step
  double makespan_s = 0.0;          // of an undisturbed pipeline

  double step_s() const;  // of the slowest rank: predicted_step_s(plan, hardware)
};
// `plan` must outlive the result. Usage error if the workers of the plan do not wait for each other
// (parallel.staleness); an error if the schedule hangs.
Result<PricedPlan> price_plan(const RunPlan& plan, const Hardware& hardware);

// Where the time of a rank goes in a disturbed step. The parts add up to the step.
struct RankSpent {
  double busy_s = 0.0;        // its kernels and its collectives inside layers
  double in_layers_s = 0.0;   // waits for slower ranks that share its layers
  double for_stages_s = 0.0;  // waits for other stages: the bubble, and messages on their way
  double tail_s = 0.0;        // exposed collectives of dp, sums in Step, and its update
  double at_end_s = 0.0;      // waits for other pipelines, and for longer updates
};

// A step in which some ranks compute more slowly than predicted, or in which all times vary. It is
// simulated for all ranks:
//
// * Ranks of one stage that share layers take every action together: for the compute time of the
//   slowest of them, and the collectives inside. These are the ranks of tp and cp, those that
//   exchange tokens of experts, and with ZeRO 3 those that gather parameters from each other.
//   Together with these ranks of the other stages they are one pipeline.
// * A stage waits for the messages of its neighbours (sim/simulate.h).
// * Pipelines meet at the end of the step, so the longest one decides. The exposed time of
//   collectives over dp is that of the undisturbed step.
//
// Pipelines in which no rank is disturbed are alike, and are not simulated again. A slower rank
// never makes the step shorter; if nothing is disturbed, step_s() has the bits of
// PricedPlan::step_s().
class DisturbedStep {
 public:
  // `priced` must outlive the step. Slow links must be in its prices already (with_slow_links).
  DisturbedStep(const PricedPlan& priced, const std::vector<SlowRank>& slow, const Jitter& jitter);

  double step_s() const { return step_s_; }
  const std::vector<RankSpent>& ranks() const { return ranks_; }  // [mesh position]
  // The rank that computes longest, and the one that half of all ranks compute at most as long as.
  // Ranks that are alike are told apart by their positions.
  int slowest() const { return by_busy_.back(); }
  int median() const { return by_busy_[by_busy_.size() / 2]; }
  // The pipeline of a rank. Pipelines are numbered along dp.
  int pipeline_of(int position) const;
  // True if two ranks take every action together.
  bool are_together(int position, int other) const;
  // When the actions of the rank's schedule (RunPlan::schedule) run, and behind them Step.
  std::vector<Span> timeline(int position) const;

 private:
  // Seconds by which the actions of a pipeline take longer, and by which its ranks then wait for
  // the slowest of those that take an action together.
  struct Extra {
    std::vector<std::vector<double>> of_action;  // [pp][action]
    std::vector<std::vector<double>> waited;     // [pp][rank of together()]
  };

  double factor_of(int position, size_t action) const;
  double compute_s(int pp, const Action& action) const;
  double step_extra_s(int position) const;  // of the update
  std::vector<int> together(int pipeline, int pp) const;
  Extra extra_of(int pipeline) const;
  Simulation simulate_pipeline(const Extra& extra) const;
  void spend(int pipeline, const Extra& extra, const Simulation& simulation);
  void end_step();

  const PricedPlan& priced_;
  std::vector<double> slow_;  // [mesh position] its factor
  Jitter jitter_;
  int dp_together_ = 1;             // neighbours along dp that are in one pipeline
  std::vector<double> makespan_s_;  // [pipeline]
  std::vector<RankSpent> ranks_;
  std::vector<int> by_busy_;  // positions
  double longest_s_ = 0.0;    // of makespan_s_
  double step_s_ = 0.0;
};

}  // namespace trireme
