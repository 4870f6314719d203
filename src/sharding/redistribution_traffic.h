#pragma once

#include "comm/group.h"
#include "spec/placement.h"

namespace trireme {

// Payload of one rank in a redistribution, by the algorithm that the group will use.
Traffic redistribution_traffic(Group& group, const Redistribution& change, const Shape& global,
                               DType dtype);

}  // namespace trireme
