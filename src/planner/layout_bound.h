#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "compile/price.h"
#include "planner/layout_choice.h"
#include "predict/collective_bytes.h"
#include "predict/layer_comm.h"

namespace trireme {

// A sum of parts in another order may be so much greater: a bound is held below it.
inline constexpr double kRounding = 1.0 - 1e-9;

struct NeededBytes {
  int64_t of_rank = 0;  // that needs most
  int64_t of_all = 0;
};

// Lower bounds of what the plan of a layout would take and need, without its programs: what its
// stages compute, what must come before and after on the other stages, what their layers exchange,
// and what a rank stores with the activations of one micro-batch. Remembers what layouts share.
class LayoutBounds {
 public:
  LayoutBounds(RunPlan started, const Hardware& hardware)
      : started_(std::move(started)), hardware_(hardware) {}

  // Infeasible, here and below: more stages than layers.
  Result<double> step_s(const LayoutChoice& layout);
  // The update and the reductions that nothing hides: what follows the schedule.
  Result<double> after_schedule_s(const LayoutChoice& layout);

  Result<NeededBytes> bytes(const LayoutChoice& layout);
  // Looser, before layers are split: as if ranks had even parts.
  NeededBytes even_bytes(const LayoutChoice& layout);
  // Closer, of a simulated schedule: [pp] the peak of what F keeps, by layer_saved_bytes.
  Result<NeededBytes> bytes(const LayoutChoice& layout, std::span<const double> saved_bytes);
  // What F keeps of one layer for one micro-batch, on the rank that keeps least.
  double layer_saved_bytes(const LayoutChoice& layout);

 private:
  // Layers and head of every stage.
  using Stages = std::vector<StageSpec>;
  // Of one layer on one rank: its parameters, and its tables before ZeRO and without alignment.
  struct LayerParams {
    double elements = 0.0;
    double tensors = 0.0;
    double params_bytes = 0.0;
    double grads_bytes = 0.0;
    double optimizer_bytes = 0.0;
  };
  // Seconds of what the actions of one layer exchange.
  struct ExchangeTimes {
    double forward_s = 0.0;
    double backward_s = 0.0;
  };
  // What a rank's step is made of whatever its ZeRO level.
  struct RankWork {
    double step_s = 0.0;     // with what comes before and after on other ranks; without the update
    double compute_s = 0.0;  // its own
    double share = 0.0;      // of the whole model's update
    double layers = 0.0;
    double inner_layers = 0.0;     // of all chunks, neither their first nor last
    double least_layers = 0.0;     // of a chunk
    double most_backward_s = 0.0;  // of a chunk and micro-batch, compute alone
  };
  using WorkKey = std::tuple<ScheduleKind, int, int64_t, Recompute>;

  Result<const Stages*> stages(const LayoutChoice& layout, int num_stages);
  const ComputeCost& compute_cost(const LayoutChoice& layout);
  RunPlan shaped(const LayoutChoice& layout) const;
  const ExchangeTimes& layer_exchanges(const LayoutChoice& layout);
  const std::vector<RankWork>& work(const LayoutChoice& layout, const Stages& stages);
  std::vector<RankWork> work_out(const LayoutChoice& layout, const Stages& stages);
  double reduce_seconds_of_layer(const LayoutChoice& layout, double num_microbatches);
  double gather_seconds_of_layer(const LayoutChoice& layout, double num_microbatches);
  double dp_bytes_per_s(const Mesh& mesh) const;
  Result<double> step_s(const LayoutChoice& layout, bool with_schedule);
  const LayerParams& params_of_layer(const Mesh& mesh);
  double stored_bytes_of_layer(const LayoutChoice& layout);

  RunPlan started_;
  const Hardware& hardware_;
  std::map<std::tuple<int, int64_t, Recompute>, Result<Stages>> stages_;
  std::map<std::tuple<int64_t, Recompute>, ComputeCost> compute_costs_;
  // By what decides them: degrees (tp, cp, ep, and with exchanges whether ranks share nodes),
  // sequences of a micro-batch, recomputation.
  std::map<std::tuple<int, int, int, int64_t, Recompute>, double> layer_saved_bytes_;
  std::map<std::tuple<int, int, int, int, int, int64_t, Recompute>, ExchangeTimes> layer_exchanges_;
  std::map<std::tuple<int, int>, LayerParams> params_of_layer_;
  Mesh mesh_of_work_;
  std::map<WorkKey, std::vector<RankWork>> work_;  // of one mesh
  CollectiveBytes collectives_;
};

}  // namespace trireme
