#pragma once

#include "collectives/cost_model.h"
#include "comm/world.h"
#include "schema/hardware.h"

namespace trireme {

// Measures by ping-pong of short and long messages the link between ranks 0 and 1, and the link
// between rank 0 and the first rank of another node, if there is one. It also measures the speed of
// adding. All ranks call it and get the same answer. With one rank only gamma is measured.
CommCost calibrate_comm(World& world);

inline constexpr int64_t kShortCallCount = 1024;

// Returns the seconds of an all-reduce of kShortCallCount fp32 numbers among all ranks: ranks
// arrive, wait for each other and are woken. This is more than the latency of a link, on which both
// ends are awake. All ranks call it and get the same answer.
double time_short_call(World& world);

// Returns the link as layers see it: the latency is that of a short call, the bandwidth that of the
// slowest link that calibrate_comm finds. With one rank both are 0. All ranks call it and get the
// same answer.
LinkSpec measure_calls(World& world);

}  // namespace trireme
