#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "planner/layer_bound.h"
#include "planner/needed_bytes.h"
#include "planner/recompute_to_fit.h"

namespace trireme {

// Lower bounds of the time and memory that the plan of a layout needs, found without compiling its
// programs. They count the compute of its stages, the earliest start and the tail on other stages,
// the exchanges of its layers, what the file of memory.offload moves and no compute hides, and the
// bytes that a rank stores with the activations of one micro-batch. Caches what layouts have in
// common.
class LayoutBounds {
 public:
  LayoutBounds(RunPlan started, const Hardware& hardware)
      : started_(std::move(started)),
        hardware_(hardware),
        most_bucket_bytes_(started_.config.parallel.bucket_bytes),
        layers_(started_, hardware) {}
  LayoutBounds(const LayoutBounds&) = delete;
  LayoutBounds& operator=(const LayoutBounds&) = delete;

  // Makes all bounds hold for each of these exchanges and orders of a mesh, whichever ones a layout
  // names, so that one bound stands for many layouts. With none, they are those of the exchange and
  // order that the layout names, as at first. A mesh must always come with the same exchanges and
  // orders.
  void take_any_of(std::vector<LayerExchange> exchanges, std::vector<MeshOrder> orders);

  // Makes all bounds of time hold for every bucket of up to so many bytes. At first it is the
  // configured one.
  void take_buckets_up_to(int64_t bytes) {
    most_bucket_bytes_ = bytes;
    work_key_.reset();
  }
  // True if a bucket of so many bytes holds a layer of this mesh beside something else.
  bool joins_layers(const Mesh& mesh, int64_t bucket_bytes);

  // Here and below the result is Infeasible if there are more stages than layers. `again`: with
  // memory.recompute = "fit" a set of values that costs no more than the one that is chosen.
  Result<double> step_s(const LayoutChoice& layout, uint64_t again = 0);
  // A looser bound that needs no stages: all ranks of a pipeline share the work evenly, and none
  // waits. It is the same for every schedule and ZeRO level.
  double even_step_s(const LayoutChoice& layout);
  // Bound of the part after the schedule, in the order that the layout names: the update, and the
  // reductions and the part of the file's time that nothing hides.
  Result<double> after_schedule_s(const LayoutChoice& layout);

  Result<NeededBytes> bytes(const LayoutChoice& layout);
  // A looser bound that needs no split of the layers: it assumes that all ranks hold equal parts.
  NeededBytes even_bytes(const LayoutChoice& layout);
  // A closer bound after the schedule was simulated. saved_bytes[pp] is the peak of saved
  // activations when a layer has layer_saved_bytes.
  Result<NeededBytes> bytes(const LayoutChoice& layout, std::span<const double> saved_bytes);
  // Saved activations of one layer for one micro-batch, on the rank that saves the least. With
  // memory.recompute = "fit" it is the least of all sets of values, and the bounds of time are
  // those of the empty set, which costs the least.
  double layer_saved_bytes(const LayoutChoice& layout) {
    return layers_.activations(layout).layer_saved;
  }

  // With memory.recompute = "fit": the cheapest set of values that may fit, by the same bounds of
  // memory. It costs no more than the set that is chosen. It is the empty set on a mixed cluster.
  // Limits of 0 do not limit.
  uint64_t cheapest_again(const LayoutChoice& layout, const NeededBytes& limit);
  uint64_t cheapest_again(const LayoutChoice& layout, const NeededBytes& limit,
                          std::span<const double> saved_bytes);
  RecomputeChoice& recompute_choice();

 private:
  // The stages of a pipeline, first to last.
  using Stages = std::vector<StageSpec>;
  // The work of one rank in a step, for any ZeRO level.
  struct RankWork {
    double step_s = 0.0;     // with the start and the tail on other ranks, without the update
    double compute_s = 0.0;  // this rank's own compute
    double layers = 0.0;
    double inner_layers = 0.0;     // layers in neither the first nor the last bucket of their chunk
    double least_layers = 0.0;     // layers of the smallest chunk
    double most_backward_s = 0.0;  // longest backward compute of a chunk and micro-batch

    // True if the other rank differs at most in when it starts and ends.
    bool is_alike(const RankWork& other) const {
      return compute_s == other.compute_s && layers == other.layers &&
             inner_layers == other.inner_layers && least_layers == other.least_layers &&
             most_backward_s == other.most_backward_s;
    }
  };
  // The work of a pipeline.
  struct PipelineWork {
    std::vector<RankWork> ranks;  // those that differ
    // [place in the pipeline]: what passes before the rank starts and after it ends; 0 in serial
    // schedules
    std::vector<double> waits_s;
    // On a mixed cluster: the time of the rank that is slowest on its own device, with what it
    // waits for and without its update. It is the least over all orders that are taken.
    double on_devices_s = 0.0;
  };
  // The memory of the ranks of a pipeline that have the same units.
  struct RankBytes {
    double layers = 0.0;
    bool has_embedding = false;
    bool has_head = false;
    double scratch_bytes = 0.0;
    int num_ranks = 0;
    double most_saved = 0.0;  // activations of the rank that saves the most
    double all_saved = 0.0;   // activations of all these ranks
  };
  using ScheduleKey =
      std::tuple<Mesh, ScheduleKind, int, int64_t, Recompute, uint64_t, LayerBounds::ExchangeKey>;

  bool knows_again(const LayoutChoice& layout) const;
  Result<const Stages*> stages(const LayoutChoice& layout, int num_stages);
  ScheduleKey schedule_key(const LayoutChoice& layout, uint64_t again) const;
  Result<const PipelineWork*> work(const LayoutChoice& layout, uint64_t again);
  PipelineWork work_out(const LayoutChoice& layout, const Stages& stages, uint64_t again);
  std::vector<double> busy_seconds(int device, const LayoutChoice& layout, const Stages& stages,
                                   uint64_t again);
  double on_devices_s(const LayoutChoice& layout, const Stages& stages, uint64_t again,
                      const std::vector<double>& waits_s);
  const std::vector<bool>& devices_of_places(const Mesh& mesh);
  std::vector<double> least_saved_bytes(const LayoutChoice& layout, const Stages& stages);
  std::vector<RankBytes> pipeline_bytes(const LayoutChoice& layout, const Stages& stages,
                                        std::span<const double> saved_bytes);
  static void add_rank(const RankBytes& own, double saved, std::vector<RankBytes>& ranks);
  Result<const std::vector<RankBytes>*> least_bytes(const LayoutChoice& layout);
  NeededBytes needed(const LayoutChoice& layout, const std::vector<RankBytes>& ranks);
  double layers_of_bucket(const Mesh& mesh);
  double file_seconds(const LayoutChoice& layout, const RankWork& own, double num_microbatches);
  Result<double> step_s(const LayoutChoice& layout, bool with_schedule, uint64_t again);

  RunPlan started_;
  const Hardware& hardware_;
  std::map<std::tuple<int, int64_t, Recompute>, Result<Stages>> stages_;
  std::map<std::tuple<int, int, int64_t>, std::vector<bool>>
      devices_of_places_;  // [size, pp, its stride]
  int64_t most_bucket_bytes_;
  LayerBounds layers_;
  std::optional<RecomputeChoice> recompute_choice_;
  std::map<LayerBounds::Key, std::vector<RecomputeChoice::SavedSet>> saved_sets_;
  // Layouts that differ only in ZeRO follow each other, so the last results are enough.
  std::optional<ScheduleKey> work_key_, bytes_key_, even_key_;
  PipelineWork work_;
  std::vector<RankBytes> least_bytes_;
  double even_step_s_ = 0.0;
};

}  // namespace trireme
