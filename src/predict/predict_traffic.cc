#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "compile/compile_rank.h"
#include "compile/rank_classes.h"
#include "memory/offload_pieces.h"
#include "predict/action_traffic.h"
#include "predict/disturbed_step.h"
#include "predict/predict.h"
#include "predict/repeated_actions.h"

namespace trireme {
namespace {

AxisBytes named(const AxisCounts& bytes) {
  AxisBytes result;
  for (size_t axis = 0; axis < bytes.size(); ++axis) {
    result.emplace_back(kTrafficAxes[axis], bytes[axis]);
  }
  return result;
}

bool is_step(const RepeatedAction& repeated) { return repeated.action.kind == ActionKind::Step; }

// True for F, B, W and BW. Their traffic does not depend on the shards.
bool is_in_layers(const Action& action) {
  return action.kind == ActionKind::F || action.kind == ActionKind::B ||
         action.kind == ActionKind::W || action.kind == ActionKind::BW;
}

// The traffic of all ranks without the exchange. Ranks of stages that are alike send the same, so
// it is counted once.
class TrafficOfRanks {
 public:
  TrafficOfRanks(const RunPlan& plan, const NodeMap& nodes, ActionTraffic& counter)
      : plan_(plan), counter_(counter), lies_alike_(lies_alike(plan.mesh, nodes)) {}

  // Returns what the ranks of a stage send, [tp, cp, dp] with tp fastest.
  const std::vector<AxisCounts>& of_stage(int pp) {
    const RankPlan& first = plan_.pipeline[size_t(pp)];
    Program program;  // without offload pieces, which differ by rank
    for (const Action& action : first.program) {
      if (!is_of_piece(action.kind)) program.push_back(action);
    }
    std::vector<RepeatedAction> repeated = repeated_actions(plan_.mesh, program, pp);
    for (const StageTraffic& traffic : counted_) {
      const bool is_alike = traffic.degrees == plan_.mesh.at(pp) &&
                            traffic.content == content_of(plan_.model, first) &&
                            traffic.repeated == repeated;
      if (is_alike && lies_alike_) return traffic.sent;
    }
    const Mesh& mesh = plan_.mesh;
    counted_.push_back({mesh.at(pp), content_of(plan_.model, first), std::move(repeated), {}});
    StageTraffic& traffic = counted_.back();
    const auto [num_tp, num_dp] = traffic.degrees;
    traffic.sent.resize(size_t(num_tp) * size_t(mesh.cp) * size_t(num_dp));
    for (int tp = 0; tp < num_tp; ++tp) count_tp_rank(pp, tp, traffic);
    return traffic.sent;
  }

 private:
  // True if no border between nodes cuts the groups of some stages or of some dp indices in another
  // way than those of the others. Ranks that share experts are blocks of neighbours along cp and
  // dp.
  static bool lies_alike(const Mesh& mesh, const NodeMap& nodes) {
    if (nodes.share_node(0, mesh.size() - 1)) return true;
    if (mesh.is_uneven() || !nodes.are_equal()) return false;
    const int64_t ranks_per_node = nodes.size_at(0);
    const auto is_even = [&](int ranks) {
      return ranks_per_node % ranks == 0 || ranks % ranks_per_node == 0;
    };
    const bool axes_are_even =
        std::all_of(mesh.order.begin(), mesh.order.end(),
                    [&](MeshAxis axis) { return is_even(stride_of(mesh, axis)); });
    return axes_are_even && is_even(stride_of(mesh, MeshAxis::Cp) * mesh.ep_cp()) &&
           is_even(stride_of(mesh, MeshAxis::Dp) * mesh.ep_dp());
  }

  struct StageTraffic {
    PlaceDegrees degrees;
    std::vector<int64_t> content;
    std::vector<RepeatedAction> repeated;
    std::vector<AxisCounts> sent;
  };

  void count_tp_rank(int pp, int tp, StageTraffic& traffic) {
    const Mesh& mesh = plan_.mesh;
    RankPlan rank = stored_rank(plan_, position_of(mesh, {.tp = tp, .pp = pp}));
    std::map<std::tuple<int, int, int>, AxisCounts> in_layers;  // (cp, ep, dp unless all are alike)
    for (int dp = 0; dp < traffic.degrees.dp; ++dp) {
      move_along_dp(rank, dp, plan_);
      for (int cp = 0; cp < mesh.cp; ++cp) {
        move_to(rank, position_of(mesh, {.tp = tp, .cp = cp, .pp = pp, .dp = dp}), plan_);
        const auto [layers, is_new] =
            in_layers.try_emplace({cp, rank.coords.ep, lies_alike_ ? 0 : dp});
        AxisCounts sum = sent_by_pieces(rank);
        for (const RepeatedAction& entry : traffic.repeated) {
          if (!is_in_layers(entry.action)) {
            add_to(sum, counter_.sent(rank, entry.action), entry.times);
          } else if (is_new) {
            add_to(layers->second, counter_.sent(rank, entry.action), entry.times);
          }
        }
        add_to(sum, layers->second);
        traffic.sent[size_t(tp + traffic.degrees.tp * (cp + mesh.cp * dp))] = sum;
      }
    }
  }

  // Each piece is read and written back once.
  static AxisCounts sent_by_pieces(const RankPlan& rank) {
    AxisCounts bytes = {};
    for (const ChunkTables& chunk : rank.chunks) {
      for (const OffloadPiece& piece : chunk.pieces) bytes[kFile] += 2 * block_bytes(piece.blocks);
    }
    return bytes;
  }

  const RunPlan& plan_;
  ActionTraffic& counter_;
  bool lies_alike_;
  std::deque<StageTraffic> counted_;  // a deque, because references to its elements must stay valid
};

}  // namespace

int64_t bytes_on_axis(const AxisBytes& traffic, std::string_view axis) {
  for (const auto& [name, bytes] : traffic) {
    if (name == axis) return bytes;
  }
  return 0;
}

AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank, const NodeMap& nodes) {
  CollectiveBytes collective_bytes(comm_cost(plan), nodes);
  return predict_traffic(plan, rank, rank.program, collective_bytes);
}

AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank,
                          std::span<const Action> actions, CollectiveBytes& collective_bytes) {
  ActionTraffic counter(plan, collective_bytes);
  AxisCounts sum = {};
  for (const RepeatedAction& entry : repeated_actions(plan.mesh, actions, rank.coords.pp)) {
    add_to(sum, counter.sent(rank, entry.action), entry.times);
    if (!is_step(entry)) continue;
    sum[kWorld] += entry.times * counter.sent_in_exchange(rank.position, rank);
  }
  return named(sum);
}

Predictions predict_ranks(const RunPlan& plan, const Hardware& hardware) {
  CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
  std::vector<int> kinds;  // of pipelines of a mixed cluster, [mesh position]
  std::vector<StepTimes> of_ranks;
  if (hardware.is_mixed()) of_ranks = predict_mixed_ranks(plan, hardware, &kinds);
  const std::vector<StepTimes> times =
      of_ranks.empty() ? predict_stages(plan, hardware) : std::vector<StepTimes>{};
  ActionTraffic counter(plan, collective_bytes);
  TrafficOfRanks traffic(plan, collective_bytes.nodes(), counter);
  std::vector<const std::vector<AxisCounts>*> of_stage;
  for (int pp = 0; pp < plan.mesh.pp; ++pp) of_stage.push_back(&traffic.of_stage(pp));
  Predictions result;
  // (class of the plan, traffic, kind of pipeline, device)
  std::map<std::tuple<int, AxisCounts, int, int>, int> numbers;
  for (int position = 0; position < plan.mesh.size(); ++position) {
    const MeshCoords at = coords_of(plan.mesh, position);
    const int in_stage = at.tp + plan.mesh.tp_at(at.pp) * (at.cp + plan.mesh.cp * at.dp);
    AxisCounts sent = (*of_stage[size_t(at.pp)])[size_t(in_stage)];
    sent[kWorld] += counter.sent_in_exchange(position, plan.pipeline.front());
    const auto [found, is_new] = numbers.try_emplace(
        {plan.class_of[size_t(position)], sent, kinds.empty() ? 0 : kinds[size_t(position)],
         hardware.device_of(position)},
        int(result.classes.size()));
    if (is_new) {
      const StepTimes& time = of_ranks.empty() ? times[size_t(at.pp)] : of_ranks[size_t(position)];
      result.classes.push_back({position, 0, {time, named(sent)}});
    }
    ++result.classes[size_t(found->second)].num_ranks;
    result.class_of.push_back(found->second);
  }
  return result;
}

}  // namespace trireme
