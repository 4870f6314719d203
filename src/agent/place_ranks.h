#pragma once

#include <span>
#include <vector>

namespace trireme {

// Gives every rank of an epoch a host. `slots` says how many ranks each host takes, 0 for a host
// that takes none. kept[r] is the host on which rank r has a living process already, or -1, and
// before[r] is where rank r ran before, or -1. A rank stays on its host if it can; the others fill
// the hosts in their order. Returns the host of every rank, or an empty vector if there are too few
// slots. `kept` and `before` are as long as the epoch has ranks.
std::vector<int> place_ranks(std::span<const int> slots, std::span<const int> kept,
                             std::span<const int> before);

}  // namespace trireme
