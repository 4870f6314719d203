#include "autoparallel/unit_moves.h"

#include <algorithm>

#include "autoparallel/choice_problem.h"

namespace trireme {
namespace {

bool is_gather(const MeshPlacement& from, const MeshPlacement& to) {
  const auto gathers = [](DimPlacement a, DimPlacement b) {
    return a != b && b == DimPlacement::Replicate;
  };
  return gathers(from[0], to[0]) || gathers(from[1], to[1]);
}

}  // namespace

void UnitMoves::set_mesh(const StageMesh& mesh) {
  if (mesh_ == mesh) return;
  mesh_ = mesh;
  of_value_.clear();
  of_vector_.clear();
}

MoveCost UnitMoves::cost(ValueId value, const MeshPlacement& from, const MeshPlacement& to,
                         const MoveAgain& again) {
  if (from == to) return {};
  const auto [known, is_new] = of_value_.try_emplace({value, from, to});
  if (is_new) known->second = both_ways(value, from, to);
  const auto& [forward_s, backward_s] = known->second;
  const double times =
      1.0 + (again.runs_again ? 1.0 : 0.0) + (again.read_again && is_gather(from, to) ? 1.0 : 0.0);
  return {times * forward_s + backward_s, forward_s};
}

const UnitMoves::VectorSeconds& UnitMoves::of_vector(double bytes, size_t dim) {
  const auto [known, is_new] = of_vector_.try_emplace({dim, bytes});
  if (is_new) {
    const MeshDim& over = mesh_.dims[dim];
    known->second = {gather_seconds(bytes, over, hardware_),
                     all_reduce_seconds(bytes, over, hardware_)};
  }
  return known->second;
}

double UnitMoves::extent(const Dim& dim) const {
  const double tokens = double(mesh_.sequences * model_.seq_len);
  switch (dim.axis) {
    case Axis::Token:
    case Axis::Sample:
      return tokens;
    case Axis::Visit:
      return double(model_.expert_rows(int64_t(tokens)));
    case Axis::Sequence:
      return double(mesh_.sequences);
    case Axis::Choice:
      return double(model_.top_k);
    case Axis::SoftmaxPart:
      return 3.0 * double(mesh_.num_ranks());
    default:
      return double(dim.extent);
  }
}

double UnitMoves::bytes_of(const Value& value) const {
  double elements = 1.0;
  for (const Dim& dim : value.dims) elements *= extent(dim);
  const DType dtype = value.numbers == Numbers::Compute ? compute_ : DType::F32;
  return elements * double(size_of(dtype));
}

// Returns the seconds in which a value is redistributed, and in which its gradient is.
std::array<double, 2> UnitMoves::both_ways(ValueId id, const MeshPlacement& from,
                                           const MeshPlacement& to) const {
  if (!can_move(from, to, mesh_)) return {kImpossible, kImpossible};
  const Value& value = graph_.values[size_t(id)];
  const double bytes = bytes_of(value);
  // The parts of a softmax are exchanged tile by tile.
  const double messages = value.dims.front() == Axis::SoftmaxPart
                              ? std::max(1.0, extent(Axis::Token) / double(kLossTileTokens))
                              : 1.0;
  const double forward_s = move_seconds(bytes, from, to, mesh_, hardware_, messages);
  if (!is_matrix(value)) return {forward_s, 0.0};
  return {forward_s, move_seconds(bytes, dual(to), dual(from), mesh_, hardware_, messages)};
}

}  // namespace trireme
