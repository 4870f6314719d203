#include "autoparallel/value_move.h"

#include <algorithm>

#include "autoparallel/choice_problem.h"
#include "collectives/move_collective.h"
#include "compile/link_cost.h"

namespace trireme {
namespace {

bool is_part(Lie lie) { return lie == Lie::Rows || lie == Lie::Columns || lie == Lie::Experts; }

Placement placement_of(Lie lie) {
  switch (lie) {
    case Lie::Rows:
      return Placement::shard(0);
    case Lie::Columns:
    case Lie::Experts:
      return Placement::shard(1);
    case Lie::Replicate:
      return Placement::replicate();
    case Lie::Partial:
      return Placement::partial();
    case Lie::Invariant:
      return Placement::invariant();
  }
  return {};
}

bool is_possible(Lie from, Lie to) {
  if (from == to) return true;
  if (to == Lie::Partial) return false;
  if (from == Lie::Replicate) return is_part(to);
  return !(from == Lie::Columns && to == Lie::Experts) &&
         !(from == Lie::Experts && to == Lie::Columns);
}

double seconds_over(double bytes, Lie from, Lie to, const MeshDim& dim, const Hardware& hardware,
                    double messages) {
  const int n = dim.degree();
  if (n == 1 || from == to) return 0.0;
  const auto move =
      collective_of({placement_of(from), placement_of(to)}, Shape{int64_t{n}, int64_t{n}}, n, 0);
  if (!move) return 0.0;
  const double others = double(n - 1) / double(n);
  switch (move->collective) {
    case Collective::AllReduce:
      return transfer_s(group_link(hardware, dim.span), 2.0 * others * bytes, messages);
    case Collective::AllToAll:
      return transfer_s(exchange_link(hardware, dim.span), others * bytes / double(n), messages);
    default:
      return transfer_s(group_link(hardware, dim.span), others * bytes, messages);
  }
}

}  // namespace

Lie lie_of(const Value& value, Placement placement, Role role) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return Lie::Replicate;
    case Placement::Kind::Partial:
      return Lie::Partial;
    case Placement::Kind::Invariant:
      return Lie::Invariant;
    case Placement::Kind::Shard:
      break;
  }
  const bool is_tensor = role == Role::Tensor || role == Role::SequenceTensor;
  if (placement.dim == 1) return role == Role::Expert ? Lie::Experts : Lie::Columns;
  // The rows of the softmax's parts belong to parts of the vocabulary.
  return is_tensor && value.dims.front() == Axis::SoftmaxPart ? Lie::Columns : Lie::Rows;
}

Lies dual(const Lies& lies) {
  Lies result = lies;
  for (Lie& lie : result) {
    if (lie == Lie::Replicate) {
      lie = Lie::Partial;
    } else if (lie == Lie::Partial) {
      lie = Lie::Replicate;
    }
  }
  return result;
}

double move_seconds(double bytes, const Lies& from, const Lies& to, const StageMesh& mesh,
                    const Hardware& hardware, double messages) {
  const auto cut_by = [&](size_t dim, Lie lie) {
    return is_part(lie) ? double(mesh.dims[dim].degree()) : 1.0;
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

bool can_move(const Lies& from, const Lies& to, const StageMesh& mesh) {
  for (size_t dim = 0; dim < 2; ++dim) {
    if (mesh.dims[dim].degree() > 1 && !is_possible(from[dim], to[dim])) return false;
  }
  return true;
}

double all_reduce_seconds(double bytes, const MeshDim& dim, const Hardware& hardware) {
  return seconds_over(bytes, Lie::Partial, Lie::Invariant, dim, hardware, 1.0);
}
double gather_seconds(double bytes, const MeshDim& dim, const Hardware& hardware) {
  return seconds_over(bytes, Lie::Rows, Lie::Invariant, dim, hardware, 1.0);
}

}  // namespace trireme
