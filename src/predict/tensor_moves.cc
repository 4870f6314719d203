#include "predict/tensor_moves.h"

#include <algorithm>
#include <map>
#include <string>

#include "collectives/move_collective.h"
#include "compile/link_cost.h"
#include "compile/price.h"
#include "graph/moves.h"
#include "graph/param_table.h"
#include "predict/piece_times.h"

namespace trireme {
namespace {

class Pricer {
 public:
  Pricer(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage, const LinkSpec& link,
         const Hardware& hardware, CollectiveBytes& collective_bytes)
      : plan_(plan),
        rank_(rank),
        link_(link),
        hardware_(hardware),
        collective_bytes_(collective_bytes) {
    if (!rank.shape.tp_overlap) return;
    for (const ParamSpec& param : local_param_table(plan.model, stage, rank.shape)) {
      if (param.shape.rank() == 2) elements_[param.name] = param.shape.num_elements();
    }
  }

  void add(const std::vector<TensorMove>& moves) {
    for (const TensorMove& move : moves) {
      const int tp = plan_.mesh.tp;
      const auto whole = collective_of(move.change, move.global, tp, rank_.coords.tp);
      if (!whole) continue;
      if (move.in_pieces) {
        add_pieces(move);
      } else {
        const int64_t bytes = sent(*whole, move.dtype);
        sum_.sent_bytes += bytes;
        sum_.seconds += transfer_s(bytes);
      }
    }
  }
  const TensorMoves& sum() const { return sum_; }

 private:
  void add_pieces(const TensorMove& move) {
    const int tp = plan_.mesh.tp;
    const PieceTraffic traffic =
        piece_traffic(move.change, move.global, kRowPieces, tp, rank_.coords.tp);
    int64_t bytes = traffic.sent_elements * size_of(move.dtype);
    for (const MoveCollective& piece : traffic.sums) bytes += sent(piece, move.dtype);
    PieceTimes times = matmul_of(move);
    times.goes_round = traffic.sums.empty();
    times.pieces = times.goes_round ? tp : int(traffic.sums.size());
    const int transfers = times.goes_round ? tp - 1 : times.pieces;
    times.transfer_s = transfers > 0 ? transfer_s(bytes / transfers) : 0.0;
    sum_.sent_bytes += bytes;
    sum_.seconds += times.exposed_s();
  }

  // The matmul of all rows with this rank's part of the weights.
  PieceTimes matmul_of(const TensorMove& move) const {
    int64_t elements = 0;
    for (const std::string& name : move.weights) {
      const auto found = elements_.find(name);
      if (found != elements_.end()) elements += found->second;
    }
    const double flops = 2.0 * double(move.global[0]) * double(elements);
    PieceTimes times;
    times.matmul_s = flops / (peak_flops(plan_, hardware_) * hardware_.matmul_share);
    if (hardware_.memory_bytes_per_s > 0.0) {
      times.weights_s = price_memory(double(elements * size_of(move.dtype)), 1, hardware_);
    }
    return times;
  }

  int64_t sent(const MoveCollective& move, DType dtype) const {
    const GroupPlace place{0, span_of(plan_.mesh, MeshAxis::Tp), {}, hardware_.ranks_per_node()};
    return collective_bytes_.sent(move.request(plan_.mesh.tp, rank_.coords.tp), place,
                                  size_of(dtype), move.algorithm() == Algorithm::Canonical);
  }
  double transfer_s(int64_t bytes) const {
    return link_.bytes_per_s > 0.0 ? link_.latency_s + double(bytes) / link_.bytes_per_s : 0.0;
  }

  const RunPlan& plan_;
  const RankPlan& rank_;
  LinkSpec link_;
  const Hardware& hardware_;
  CollectiveBytes& collective_bytes_;
  std::map<std::string, int64_t> elements_;
  TensorMoves sum_;
};

}  // namespace

TensorMoves price_tensor_moves(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage,
                               ActionKind kind, const LinkSpec& link, const Hardware& hardware,
                               CollectiveBytes& collective_bytes) {
  if (plan.mesh.tp == 1) return {};
  const StageMoves& moves = collective_bytes.moves(plan.model, stage, rank.shape);
  Pricer pricer(plan, rank, stage, link, hardware, collective_bytes);
  if (kind == ActionKind::F) {
    pricer.add(moves.forward);
    return pricer.sum();
  }
  const bool runs_all_again =
      hardware.practice.recomputes_whole_layers && rank.shape.recompute == Recompute::Full;
  pricer.add(runs_all_again ? moves.forward : moves.recompute);
  if (kind != ActionKind::W) pricer.add(moves.backward_input);
  if (kind != ActionKind::B) pricer.add(moves.backward_weight);
  return pricer.sum();
}

}  // namespace trireme
