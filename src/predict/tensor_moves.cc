#include "predict/tensor_moves.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "collectives/move_collective.h"
#include "compile/kernel_price.h"
#include "compile/link_cost.h"
#include "graph/all_passes.h"
#include "graph/model_graphs.h"
#include "graph/moves.h"
#include "graph/param_table.h"
#include "predict/piece_times.h"
#include "sim/simulate_overlap.h"

namespace trireme {
namespace {

// Seconds of the products beside which a layer's transfers run in BW, in the order of stage_moves:
// beside the sum of an input's gradient the weights' gradients are made, and beside the gather of
// what a product has read, the input's gradient. 0: nothing runs beside it.
struct ProductsBeside {
  std::vector<double> input_moves_s, weight_moves_s;
};

ProductsBeside products_beside_moves(const ModelSpec& model, const StageShape& shape,
                                     const Hardware& hardware) {
  const Graph placed = placed_graph(layer_graph(model, 0), shape);
  const std::vector<OpWork> works = op_works(placed, shard_model(model, shape), shape);
  ProductsBeside beside;
  for (const Op& move : placed.ops) {
    if (move.kind != OpKind::Redistribute || move.axis != MeshAxis::Tp) continue;
    double seconds = 0.0;
    for (size_t i = 0; i < placed.ops.size(); ++i) {
      if (!reads(placed.ops[i], move.outputs.front())) continue;
      for (const Product& product : works[i].weight_grad.products) {
        seconds += price_product(product, shape.compute, hardware);
      }
    }
    const bool is_entry = !(move.change.from == Placement::partial());
    beside.input_moves_s.push_back(is_entry ? seconds : 0.0);
    if (is_entry) beside.weight_moves_s.push_back(seconds);
  }
  return beside;
}

std::optional<VectorMove> vector_move(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
      return VectorMove::AllReduce;
    case Collective::ReduceScatter:
      return VectorMove::ReduceScatter;
    case Collective::AllGather:
      return VectorMove::AllGather;
    default:
      return std::nullopt;
  }
}

bool is_of_layer(const TensorMove& move) {
  return move.tensor.find("layers.") != std::string::npos;
}

class Pricer {
 public:
  Pricer(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage, MeshAxis axis,
         const Hardware& hardware, CollectiveBytes& collective_bytes)
      : plan_(plan),
        rank_(rank),
        axis_(axis),
        coord_(rank.coords.along(axis)),
        span_(span_on(hardware, plan.mesh, axis, rank.coords.pp)),
        link_(group_link(hardware, span_)),
        hardware_(hardware),
        collective_bytes_(collective_bytes) {
    if (!rank.shape.tp_overlap) return;
    for (const ParamSpec& param : local_param_table(plan.model, stage, rank.shape)) {
      if (param.shape.rank() == 2) weights_[param.name] = {param.shape[0], param.shape[1]};
    }
  }

  // The transfers that follow belong to products with the weights transposed.
  void go_backwards() { is_backward_ = true; }

  void add(const std::vector<TensorMove>& moves) {
    for (const TensorMove& move : moves) {
      if (move.axis != axis_) continue;
      const int ranks = move.num_ranks(rank_.shape);
      const auto whole = collective_of(move.change, move.global, ranks, coord_);
      if (!whole) continue;
      if (move.in_pieces) {
        add_pieces(move);
      } else {
        const int64_t bytes = sent(*whole, ranks, move.dtype);
        sum_.sent_bytes += bytes;
        sum_.seconds += whole_s(whole->collective, bytes);
      }
    }
  }
  // Adds the gathers in layers among some transfers.
  void add_gathers_of_layers(const std::vector<TensorMove>& moves) {
    for (const TensorMove& move : moves) {
      if (!is_of_layer(move)) continue;
      const auto whole = collective_of(move.change, move.global, rank_.shape.tp, rank_.coords.tp);
      if (whole && whole->collective == Collective::AllGather) add({move});
    }
  }

  // Adds transfers of which those of a layer start together with products: beside_s has the seconds
  // of these products for each transfer of one layer. Compute waits for the rest of the transfer.
  void add_beside(const std::vector<TensorMove>& moves, const std::vector<double>& beside_s) {
    size_t next = 0;
    for (const TensorMove& move : moves) {
      const double before_s = sum_.seconds;
      add({move});
      if (!is_of_layer(move) || beside_s.empty()) continue;
      const double product_s = beside_s[next++ % beside_s.size()];
      const double whole_s = sum_.seconds - before_s;
      const double slowed_s = slowdown_s(product_s, whole_s, hardware_.overlap_share);
      sum_.seconds = before_s + std::max(slowed_s, whole_s - product_s);
    }
  }
  const TensorMoves& sum() const { return sum_; }

 private:
  void add_pieces(const TensorMove& move) {
    const int tp = rank_.shape.tp;
    const PieceTraffic traffic =
        piece_traffic(move.change, move.global, kRowPieces, tp, rank_.coords.tp);
    int64_t bytes = traffic.sent_elements * size_of(move.dtype);
    for (const MoveCollective& piece : traffic.sums) bytes += sent(piece, tp, move.dtype);
    const bool goes_round = traffic.sums.empty();
    PieceTimes times = matmul_of(move, goes_round ? tp : int(traffic.sums.size()));
    times.goes_round = goes_round;
    const int transfers = times.goes_round ? tp - 1 : times.pieces;
    times.transfer_s = transfers > 0 ? transfer_s(bytes / transfers) : 0.0;
    sum_.sent_bytes += bytes;
    sum_.seconds += times.exposed_s();
  }

  // The matmul of all rows with this rank's part of the weights, in so many pieces.
  PieceTimes matmul_of(const TensorMove& move, int pieces) const {
    PieceTimes times{.pieces = pieces, .taken_share = hardware_.overlap_share};
    const double whole_s = product_s(move, move.global[0]);
    times.matmul_s = whole_s;
    if (pieces == 1) return times;
    const double piece_s = product_s(move, (move.global[0] + pieces - 1) / pieces);
    times.weights_s = std::max(0.0, pieces * piece_s - whole_s) / (pieces - 1);
    return times;
  }
  double product_s(const TensorMove& move, int64_t rows) const {
    double seconds = 0.0;
    for (const std::string& name : move.weights) {
      const auto found = weights_.find(name);
      if (found == weights_.end()) continue;
      const auto [out, in] = found->second;
      seconds += product_s(is_backward_ ? Product{rows, in, out} : Product{rows, out, in});
    }
    return seconds;
  }
  // On the slowest device of the cluster.
  double product_s(const Product& product) const {
    double seconds = 0.0;
    for (int device = 0; device < hardware_.num_devices(); ++device) {
      const DType compute = plan_.shape.compute;
      seconds =
          std::max(seconds, hardware_.is_mixed()
                                ? price_product(product, compute, hardware_.all_of_device(device))
                                : price_product(product, compute, hardware_));
    }
    return seconds;
  }

  int64_t sent(const MoveCollective& move, int ranks, DType dtype) const {
    const GroupPlace place{
        first_alike(collective_bytes_.nodes(), plan_.mesh, rank_.coords.pp), span_, {}};
    return collective_bytes_.sent(move.request(ranks, coord_), place, size_of(dtype),
                                  move.algorithm() == Algorithm::Canonical);
  }
  // A collective of a device's library, or the messages of one.
  double whole_s(Collective collective, int64_t bytes) {
    const std::optional<VectorMove> move = vector_move(collective);
    CollectivePrice price{.seconds = transfer_s(bytes)};
    if (move && has_device_library(hardware_, span_)) {
      price = price_collective(hardware_, span_, *move, double(bytes));
    }
    if (move) sum_.largest[size_t(*move)].take(*move, double(bytes), price);
    return price.seconds;
  }
  double transfer_s(int64_t bytes) const {
    return link_.bytes_per_s > 0.0 ? link_.latency_s + double(bytes) / link_.bytes_per_s : 0.0;
  }

  const RunPlan& plan_;
  const RankPlan& rank_;
  MeshAxis axis_;
  int coord_;  // of the rank along the axis
  RankSpan span_;
  LinkSpec link_;
  const Hardware& hardware_;
  CollectiveBytes& collective_bytes_;
  std::map<std::string, std::array<int64_t, 2>> weights_;  // [output][input]
  bool is_backward_ = false;
  TensorMoves sum_;
};

}  // namespace

TensorMoves price_tensor_moves(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage,
                               MeshAxis axis, ActionKind kind, const Hardware& hardware,
                               CollectiveBytes& collective_bytes) {
  const StageMoves& moves = collective_bytes.moves(plan.model, stage, rank.shape);
  Pricer pricer(plan, rank, stage, axis, hardware, collective_bytes);
  if (kind == ActionKind::F) {
    pricer.add(moves.forward);
    return pricer.sum();
  }
  const TrainerPractice& practice = hardware.practice;
  const bool runs_all_again =
      practice.recomputes_whole_layers && rank.shape.recompute == Recompute::Full;
  const bool gathers_again = practice.selective == SelectivePractice::EveryOtherProduct &&
                             rank.shape.recompute == Recompute::Selective;
  if (gathers_again) {
    pricer.add_gathers_of_layers(moves.forward);
  } else {
    pricer.add(runs_all_again ? moves.forward : moves.recompute);
  }
  pricer.go_backwards();
  if (kind == ActionKind::BW && practice.hides_tp_sums) {
    const ProductsBeside beside = products_beside_moves(plan.model, rank.shape, hardware);
    pricer.add_beside(moves.backward_input, beside.input_moves_s);
    pricer.add_beside(moves.backward_weight, beside.weight_moves_s);
    return pricer.sum();
  }
  if (kind != ActionKind::W) pricer.add(moves.backward_input);
  if (kind != ActionKind::B) pricer.add(moves.backward_weight);
  return pricer.sum();
}

}  // namespace trireme
