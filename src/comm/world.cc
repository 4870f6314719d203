#include "comm/world.h"

#include <numeric>

namespace trireme {
namespace {

GroupShape world_shape(Backend& backend) {
  GroupShape shape{.id = 0, .name = "world", .rank = backend.rank()};
  shape.members.resize(size_t(backend.fabric().size()));
  std::iota(shape.members.begin(), shape.members.end(), 0);
  return shape;
}

}  // namespace

World::World(Backend& backend, const WorldOptions& options)
    : backend_(backend), context_(backend, options), group_(context_, world_shape(backend)) {}

}  // namespace trireme
