#include "compile/stage_cost.h"

#include <algorithm>

#include "compile/link_cost.h"
#include "compile/this_machine.h"
#include "graph/op_tensors.h"
#include "program/split_layers.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

// What one stage sends to the next for one micro-batch, and how long it takes.
struct StageMessage {
  double bytes = 0.0;
  double gather_s = 0.0;  // tp ranks that each received a part gather the whole
};

StageMessage message_of(const RunPlan& plan, const Hardware& hardware) {
  const ModelShard shard = shard_model(plan.model, plan.shape);
  const int64_t width = shard.reads_images() ? largest_border(shard) : shard.d_model;
  const int64_t elements = TokenCounts(shard, plan.shape).residual * width;
  StageMessage message{double(elements * size_of(plan.shape.compute))};
  const double tp = plan.mesh.tp;
  if (!hardware.practice.splits_messages || plan.shape.sequence_parallel) return message;
  message.bytes /= tp;
  message.gather_s =
      transfer_s(group_link(hardware, span_of(plan.mesh, MeshAxis::Tp)), (tp - 1) * message.bytes);
  return message;
}

LinkSpec link_between(const RunPlan& plan, const Hardware& hardware, int from, int to) {
  const auto position = [&](int pp) { return position_of(plan.mesh, {.pp = pp}); };
  return pair_link(hardware, position(from), position(to));
}

// Kernels that a stage launches one by one behind a message for which it has waited: until then
// none was queued.
constexpr double kLaunchesBehindMessage = 8.0;

// A trainer whose stages wait for their messages: every stage with a neighbour sends and receives
// one message in F and one in B.
void block_on_transfers(const RunPlan& plan, const StageMessage& message, const Hardware& hardware,
                        Costs& costs) {
  const int pp = plan.mesh.pp;
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const int rank = int(stage) % pp, next = (rank + 1) % pp;
    if (rank == next) continue;  // the next stage lies on this rank
    const LinkSpec link = link_between(plan, hardware, rank, next);
    const double seconds = transfer_s(link, message.bytes) + message.gather_s +
                           kLaunchesBehindMessage * hardware.launch_s;
    costs.stages[stage].f_s += seconds;
    costs.stages[stage].b_s += seconds;
  }
}

}  // namespace

StageTimes stage_times(const ComputeTimes& times) {
  return {.f_s = times.f_s, .b_s = times.b_s, .w_s = times.w_s};
}

Hardware nominal_hardware() { return assumed_hardware({1.0, 1.0}); }

std::vector<int> lanes_of_stages(const RunPlan& plan) {
  std::vector<int> lanes(size_t(num_stages(plan.schedule)), 1);
  for (int place = 0; place < plan.schedule.num_ranks; ++place) {
    for (int chunk = 0; chunk < plan.schedule.num_chunks; ++chunk) {
      lanes[size_t(stage_of(plan.schedule, place, chunk))] = plan.mesh.lanes_at(place);
    }
  }
  return lanes;
}

Result<std::vector<StageSpec>> split_stages(const RunPlan& plan, int num_stages) {
  StageShape whole = plan.shape;
  whole.tp = whole.cp = whole.ep = 1;
  whole.tp_rank = whole.cp_rank = whole.ep_rank = 0;
  whole.slices = 0;
  whole.again = 0;  // the stages of `fit` are those of a plan that computes nothing again
  const UnitPrices prices = price_units(plan.model, whole, nominal_hardware());
  std::vector<double> layers;
  for (const LayerRun& kind : prices.kinds) {
    layers.insert(layers.end(), size_t(kind.count), prices.layers[size_t(kind.kind)].total_s());
  }
  std::vector<double> factors;
  if (!plan.mesh.stage_dp.empty()) {
    const std::vector<int> lanes = lanes_of_stages(plan);
    factors.assign(lanes.begin(), lanes.end());
  }
  TRIREME_TRY(counts, split_layers(layers, num_stages,
                                   {.first = 0.0, .last = prices.head.total_s()}, factors));
  std::vector<StageSpec> stages;
  int64_t first_layer = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    stages.push_back({first_layer, counts[size_t(stage)], stage == 0, stage == num_stages - 1});
    first_layer += counts[size_t(stage)];
  }
  return stages;
}

Costs pipeline_costs(const RunPlan& plan, const UnitPrices& prices,
                     const std::vector<StageSpec>& stages, const Hardware& hardware) {
  Costs costs;
  costs.stages.clear();
  for (const StageSpec& stage : stages) costs.stages.push_back(stage_times(prices.of(stage)));
  const StageMessage message = message_of(plan, hardware);
  if (hardware.practice.blocks_on_transfers) {
    block_on_transfers(plan, message, hardware, costs);
    return costs;
  }
  costs.message_bytes = message.bytes;
  std::vector<Link> links;
  for (int from = 0; from < plan.mesh.pp; ++from) {
    for (int to = 0; to < plan.mesh.pp; ++to) {
      const LinkSpec link = link_between(plan, hardware, from, to);
      // The ranks of the place with more lanes send or receive the messages of all of them.
      const double lanes = std::max(plan.mesh.lanes_at(from), plan.mesh.lanes_at(to));
      links.push_back({lanes * (link.latency_s + hardware.background_s), link.bytes_per_s / lanes});
    }
  }
  costs.link_of = [links = std::move(links), pp = plan.mesh.pp](int from, int to) {
    return links[size_t(from * pp + to)];
  };
  return costs;
}

}  // namespace trireme
