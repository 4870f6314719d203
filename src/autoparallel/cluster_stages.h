#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "autoparallel/stage_search.h"

namespace trireme {

// Finds the best plan of any stage on any neighbouring ranks of a cluster, whose ranks may have
// different devices, for micro-batches of one size. A stage on several devices takes the plan of
// the device that is slowest at it, in the memory of the one that has the least.
class ClusterStages {
 public:
  // `run` must outlive the object.
  ClusterStages(const PlannedRun& run, int64_t sequences, double same_bytes = kSameBytes);

  // Stages whose ranks have the same devices are alike: they have the same mix, numbered from 0. A
  // cluster of equal devices has one mix.
  int num_mixes() const { return int(mixes_.size()); }
  int mix_of(int first_rank, int num_ranks) const;

  // A cluster as if all its ranks had the first of the devices of a mix.
  const Hardware& hardware_of(int mix) const { return mixes_[size_t(mix)].front()->run.hardware; }

  int64_t sequences() const { return sequences_; }  // of a micro-batch
  int64_t num_microbatches() const { return first().num_microbatches(); }
  std::vector<StageSearch::Uniform> uniforms(int num_ranks) const {
    return first().uniforms(num_ranks);
  }

  // As StageSearch has them.
  std::optional<StagePlan> best(int mix, int first_unit, int last_unit, int num_ranks,
                                int in_flight);
  double best_seconds(int mix, int first_unit, int last_unit, int num_ranks, int in_flight);
  // As StageSearch does it; does nothing on a mixed cluster.
  void leave_out_above(double step_s, const std::vector<int>& mesh_sizes);
  bool has_many_kinds() const { return first().has_many_kinds(); }
  SecondsBounds bounds(int mix, int first_unit, int last_unit, int num_ranks, int in_flight);
  // Returns a stage of a uniform layout; nullopt if it does not fit or some op cannot have its
  // role.
  std::optional<StagePlan> uniform_stage(int mix, const StageSearch::Uniform& uniform,
                                         int first_unit, int last_unit, int in_flight);
  // Returns the search of the device that is the slowest at a stage of a plan by op.
  StageSearch& slowest_search(int first_rank, const StagePlan& stage);
  // Returns the time of one unit in a uniform layout, whether it fits or not; kImpossible if some
  // op cannot have its role.
  double uniform_seconds(int mix, const StageSearch::Uniform& uniform, int unit);

 private:
  // All ranks have one device, with so much memory.
  struct OfDevice {
    PlannedRun run;
    StageSearch search;
    OfDevice(const PlannedRun& of_all, int device, double memory_bytes, int64_t sequences,
             double same_bytes);
  };
  const StageSearch& first() const { return mixes_.front().front()->search; }
  std::vector<OfDevice*> searches_of(const PlannedRun& run, const std::vector<int>& devices,
                                     int64_t sequences, double same_bytes);

  int64_t sequences_;
  std::vector<int> device_of_;    // [rank]
  std::vector<int> next_change_;  // [rank] the next rank that has another device
  std::map<std::pair<int, double>, std::unique_ptr<OfDevice>> of_devices_;  // (device, bytes)
  std::map<std::vector<int>, int> number_of_;  // of a mix, by its devices, rising
  std::vector<std::vector<OfDevice*>> mixes_;  // [mix] its devices
};

// Returns the memory of a rank in bytes that has this device; infinity if it is unknown.
double memory_of_device(const PlannedRun& run, int device);

}  // namespace trireme
