#include "compile/stage_cost.h"

#include <algorithm>

#include "compile/collective_price.h"
#include "compile/this_machine.h"
#include "graph/op_tensors.h"
#include "program/split_layers.h"
#include "schema/image_net.h"
#include "schema/message_cut.h"

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
  message.gather_s = collectives_s(hardware, span_on(hardware, plan.mesh, MeshAxis::Tp, 0),
                                   VectorMove::AllGather, (tp - 1) * message.bytes);
  return message;
}

LinkSpec link_between(const RunPlan& plan, const Hardware& hardware, int from, int to) {
  const auto position = [&](int pp) { return position_of(plan.mesh, {.pp = pp}); };
  return pair_link(hardware, position(from), position(to));
}

// The link of one message between two places, of which a rank sends or receives a part if the
// degrees of tp differ (schema/message_cut.h). StageMessage::bytes is what it would be with those
// of the plan.
Link link_of_messages(const RunPlan& plan, const StageMessage& message, const Hardware& hardware,
                      int from, int to) {
  const Mesh& mesh = plan.mesh;
  const LinkSpec link = link_between(plan, hardware, from, to);
  // The ranks of the place with more lanes send or receive the messages of all of them.
  const double lanes = std::max(mesh.lanes_at(from), mesh.lanes_at(to));
  const MessageCut sent = message_cut(plan.shape_at(from), mesh.tp_at(to));
  const MessageCut received = message_cut(plan.shape_at(to), mesh.tp_at(from));
  // The ranks of the place with fewer of them send or receive the larger parts.
  const double part = sent.shares_rows
                          ? double(mesh.tp) / std::min(mesh.tp_at(from), mesh.tp_at(to))
                          : 1.0 / std::min(sent.here, received.here);
  const int ranks = received.num_gathering();
  const RankSpan gathering{ranks, stride_of(mesh, MeshAxis::Tp, to),
                           nodes_of_place(hardware, mesh, to)};
  const double gather_s = ranks == 1 ? 0.0
                                     : collectives_s(hardware, gathering, VectorMove::AllGather,
                                                     message.bytes * (ranks - 1) / ranks);
  return {lanes * (link.latency_s + hardware.background_s + gather_s),
          link.bytes_per_s / (lanes * part)};
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
  std::vector<int> lanes;
  for (int stage = 0; stage < num_stages(plan.schedule); ++stage) {
    lanes.push_back(plan.mesh.lanes_at(plan.place_of(stage)));
  }
  return lanes;
}

void price_lanes(const RunPlan& plan, Costs& costs) {
  const std::vector<int> lanes = lanes_of_stages(plan);
  for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
    StageTimes& times = costs.stages[stage];
    for (double* seconds : {&times.f_s, &times.b_s, &times.w_s, &times.bw_s, &times.fb_s}) {
      *seconds *= lanes[stage];  // unset times are negative and stay so
    }
  }
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
  for (int stage = 0; plan.mesh.is_uneven() && stage < num_stages; ++stage) {
    const int place = plan.place_of(stage);
    factors.push_back(double(plan.mesh.lanes_at(place)) / plan.mesh.tp_at(place));
  }
  // A head with modules that look ahead may cost more than the layers of another stage.
  const EndCosts ends{.last = prices.head.total_s(), .last_needs_layer = plan.model.mtp_depth == 0};
  TRIREME_TRY(counts, split_layers(layers, num_stages, ends, factors));
  std::vector<StageSpec> stages;
  int64_t first_layer = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    stages.push_back({first_layer, counts[size_t(stage)], stage == 0, stage == num_stages - 1});
    first_layer += counts[size_t(stage)];
  }
  return stages;
}

Costs pipeline_costs(const RunPlan& plan, const PlanPrices& prices,
                     const std::vector<StageSpec>& stages, const Hardware& hardware) {
  Costs costs;
  costs.stages.clear();
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int place = plan.mesh.is_uneven() ? plan.place_of(int(stage)) : 0;
    costs.stages.push_back(stage_times(prices.at(plan.mesh, place).of(stages[stage])));
  }
  const StageMessage message = message_of(plan, hardware);
  if (hardware.practice.blocks_on_transfers) {
    block_on_transfers(plan, message, hardware, costs);
    return costs;
  }
  costs.message_bytes = message.bytes;
  std::vector<Link> links;
  for (int from = 0; from < plan.mesh.pp; ++from) {
    for (int to = 0; to < plan.mesh.pp; ++to) {
      links.push_back(link_of_messages(plan, message, hardware, from, to));
    }
  }
  costs.link_of = [links = std::move(links), pp = plan.mesh.pp](int from, int to) {
    return links[size_t(from * pp + to)];
  };
  return costs;
}

}  // namespace trireme
