#include "autoparallel/value_move.h"

#include <algorithm>

#include "autoparallel/choice_problem.h"
#include "collectives/move_collective.h"
#include "compile/collective_price.h"

namespace trireme {
namespace {

bool is_part(DimPlacement placed) {
  return placed == DimPlacement::Rows || placed == DimPlacement::Columns ||
         placed == DimPlacement::Experts;
}

Placement placement_of(DimPlacement placed) {
  switch (placed) {
    case DimPlacement::Rows:
      return Placement::shard(0);
    case DimPlacement::Columns:
    case DimPlacement::Experts:
      return Placement::shard(1);
    case DimPlacement::Replicate:
      return Placement::replicate();
    case DimPlacement::Partial:
      return Placement::partial();
    case DimPlacement::Invariant:
      return Placement::invariant();
  }
  return {};
}

bool is_possible(DimPlacement from, DimPlacement to) {
  if (from == to) return true;
  if (to == DimPlacement::Partial) return false;
  if (from == DimPlacement::Replicate) return is_part(to);
  return !(from == DimPlacement::Columns && to == DimPlacement::Experts) &&
         !(from == DimPlacement::Experts && to == DimPlacement::Columns);
}

double seconds_over(double bytes, DimPlacement from, DimPlacement to, const MeshDim& dim,
                    const Hardware& hardware, double messages) {
  const int n = dim.degree();
  if (n == 1 || from == to) return 0.0;
  const auto move =
      collective_of({placement_of(from), placement_of(to)}, Shape{int64_t{n}, int64_t{n}}, n, 0);
  if (!move) return 0.0;
  const double others = double(n - 1) / double(n);
  switch (move->collective) {
    case Collective::AllReduce:
      return collectives_s(hardware, dim.span, VectorMove::AllReduce, 2.0 * others * bytes,
                           messages);
    case Collective::AllToAll:
      return transfer_s(exchange_link(hardware, dim.span), others * bytes / double(n), messages);
    default:
      return collectives_s(hardware, dim.span, VectorMove::AllGather, others * bytes, messages);
  }
}

}  // namespace

DimPlacement placement_by_role(const Value& value, Placement placement, Role role) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return DimPlacement::Replicate;
    case Placement::Kind::Partial:
      return DimPlacement::Partial;
    case Placement::Kind::Invariant:
      return DimPlacement::Invariant;
    case Placement::Kind::Halo:
      return DimPlacement::Rows;
    case Placement::Kind::Shard:
      break;
  }
  const bool is_tensor = role == Role::Tensor || role == Role::SequenceTensor;
  if (placement.dim == 1)
    return role == Role::Expert ? DimPlacement::Experts : DimPlacement::Columns;
  // The rows of the softmax's parts belong to parts of the vocabulary.
  return is_tensor && value.dims.front() == Axis::SoftmaxPart ? DimPlacement::Columns
                                                              : DimPlacement::Rows;
}

MeshPlacement dual(const MeshPlacement& placements) {
  MeshPlacement result = placements;
  for (DimPlacement& placed : result) {
    if (placed == DimPlacement::Replicate) {
      placed = DimPlacement::Partial;
    } else if (placed == DimPlacement::Partial) {
      placed = DimPlacement::Replicate;
    }
  }
  return result;
}

double move_seconds(double bytes, const MeshPlacement& from, const MeshPlacement& to,
                    const StageMesh& mesh, const Hardware& hardware, double messages) {
  const auto cut_by = [&](size_t dim, DimPlacement placed) {
    return is_part(placed) ? double(mesh.dims[dim].degree()) : 1.0;
  };
  double least = kImpossible;
  for (const size_t first : {size_t{0}, size_t{1}}) {
    const size_t second = 1 - first;
    const double seconds = seconds_over(bytes / cut_by(second, from[second]), from[first],
                                        to[first], mesh.dims[first], hardware, messages) +
                           seconds_over(bytes / cut_by(first, to[first]), from[second], to[second],
                                        mesh.dims[second], hardware, messages);
    least = std::min(least, seconds);
  }
  return least;
}

bool can_move(const MeshPlacement& from, const MeshPlacement& to, const StageMesh& mesh) {
  for (size_t dim = 0; dim < 2; ++dim) {
    if (mesh.dims[dim].degree() > 1 && !is_possible(from[dim], to[dim])) return false;
  }
  return true;
}

double all_reduce_seconds(double bytes, const MeshDim& dim, const Hardware& hardware) {
  return seconds_over(bytes, DimPlacement::Partial, DimPlacement::Invariant, dim, hardware, 1.0);
}
double gather_seconds(double bytes, const MeshDim& dim, const Hardware& hardware) {
  return seconds_over(bytes, DimPlacement::Rows, DimPlacement::Invariant, dim, hardware, 1.0);
}

}  // namespace trireme
