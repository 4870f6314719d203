#include "comm/world.h"

#include <fmt/format.h>

#include <numeric>

#include "base/failure.h"

namespace trireme {
namespace {

GroupShape world_shape(Backend& backend) {
  GroupShape shape{.id = 0, .name = "world", .rank = backend.rank()};
  shape.members.resize(size_t(backend.fabric().size()));
  std::iota(shape.members.begin(), shape.members.end(), 0);
  return shape;
}

}  // namespace

RankError::RankError(int rank, const Error& error)
    : CommError(fmt::format("rank {}: {}", rank, error.message)), rank_(rank), error_(error) {}

void abort_with(Fabric& fabric, int rank, const std::exception& exception) {
  const Error error = error_of(exception);
  fabric.abort(rank, error.message, error.kind);
}

void throw_first_error(const Fabric& fabric) {
  if (!fabric.aborted()) return;
  const Error error = fabric.first_error();  // waits until rank and text are written
  throw RankError(fabric.first_failed_rank(), error);
}

void World::abort(const std::exception& cause) { abort_with(backend_.fabric(), rank(), cause); }

World::World(Backend& backend, const WorldOptions& options)
    : backend_(backend), context_(backend, options), group_(context_, world_shape(backend)) {}

}  // namespace trireme
