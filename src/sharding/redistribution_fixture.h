#pragma once

#include <optional>

#include "collectives/move_collective.h"
#include "comm/group_driver.h"
#include "schema/placement.h"

namespace trireme {

// Payload of one rank in a redistribution, by the algorithm that the group will use.
inline Traffic redistribution_traffic(Group& group, const Redistribution& change,
                                      const Shape& global, DType dtype) {
  const std::optional<MoveCollective> move =
      collective_of(change, global, group.size(), group.rank());
  if (!move) return {};
  const auto flat = [&](Placement placement) {
    const Shape part = local_shape(global, placement, group.size(), group.rank());
    return TensorRef{nullptr, dtype, Shape{part.num_elements()}};
  };
  return group.driver().predict({.collective = move->collective,
                                 .in = flat(change.from),
                                 .out = flat(change.to),
                                 .algorithm = move->algorithm(),
                                 .counts = move->counts,
                                 .recv_counts = move->recv_counts});
}

}  // namespace trireme
