#pragma once

#include <map>
#include <span>
#include <vector>

#include "compile/run_plan.h"
#include "predict/disturbances.h"
#include "sim/simulate.h"

namespace trireme {

// Which ranks take every action of a schedule together, because they wait for each other inside it.
// These are ranks of one stage: those of tp and cp, those that exchange tokens of experts, and with
// ZeRO 3 those that gather parameters from each other. Together with the same ranks of the other
// stages they are a pipeline; pipelines are numbered along dp.
class Pipelines {
 public:
  explicit Pipelines(const RunPlan& plan);

  int count() const { return mesh_.dp / dp_together_; }
  int of(int position) const { return coords_of(mesh_, position).dp / dp_together_; }
  // Positions of the ranks of a stage that are together, rising.
  std::vector<int> together(int pipeline, int pp) const;

 private:
  Mesh mesh_;
  int dp_together_ = 1;  // neighbours along dp
};

// Times on the devices of a mixed cluster. Empty if all ranks have the same device.
struct DeviceTimes {
  std::vector<int> device_of;                    // [mesh position]
  std::vector<std::vector<StageTimes>> compute;  // [device][stage] as PricedPlan::compute
  std::vector<std::vector<double>> update;       // [device][pp] factor of the predicted update
};

// What the ranks that take the actions of one stage together take longer than predicted.
struct ExtraOfStage {
  std::vector<double> actions_s;  // [action] seconds: of the slowest of them
  std::vector<double> own_s;      // [rank of together()] seconds that each computes longer
  std::vector<double> waited_s;   // [rank of together()] how long each waits for the slowest
  std::vector<double> update;     // [rank of together()] factor of the time of Step
};
using PipelineExtra = std::vector<ExtraOfStage>;  // [pp]

// Times of the actions of ranks that are slow, whose device is slower than the fastest one of a
// mixed cluster, or under jitter. The random factors of pipelines without a slow rank are drawn
// once, however often they are asked for.
class ExtraTimes {
 public:
  // `compute` are the predicted seconds of kernels alone for one lane, [stage]. `plan` must outlive
  // the object.
  ExtraTimes(const RunPlan& plan, std::vector<StageTimes> compute, const Jitter& jitter,
             const DeviceTimes& devices = {});

  const Pipelines& pipelines() const { return pipelines_; }
  bool is_jittered() const { return jitter_.sigma > 0.0; }
  // Pipelines of the same kind have the same devices at the same places, numbered from 0.
  int kind_of(int pipeline) const { return kinds_.empty() ? 0 : kinds_[size_t(pipeline)]; }
  // Of a pipeline without a slow rank. If there is no jitter all of a kind are alike.
  const PipelineExtra& usual(int pipeline);
  // `factors`: of each rank, [mesh position].
  PipelineExtra slowed(int pipeline, std::span<const double> factors) const;

 private:
  ExtraOfStage extra_of(const std::vector<int>& positions, int pp,
                        std::span<const double> factors) const;

  const RunPlan& plan_;
  Pipelines pipelines_;
  Jitter jitter_;
  void number_kinds();

  std::vector<std::vector<double>> compute_s_;  // [pp][action] seconds of kernels
  std::vector<int> device_of_;                  // [mesh position]; empty: all have the same device
  // [device][pp][action] the time of the action's kernels on the device / compute_s_, then of Step
  std::vector<std::vector<std::vector<double>>> on_device_;
  std::vector<int> kinds_;              // [pipeline]
  std::map<int, PipelineExtra> usual_;  // [pipeline]
};

}  // namespace trireme
