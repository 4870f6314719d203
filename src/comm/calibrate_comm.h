#pragma once

#include "collectives/cost_model.h"
#include "comm/world.h"
#include "spec/hardware.h"

namespace trireme {

// Measures the links between ranks 0 and 1, and between rank 0 and the first rank of another node
// where there is one, by ping-pong of short and long messages, and the speed of adding. Called by
// all ranks; all get the same answer. Needs two ranks; with one only gamma is measured.
CommCost calibrate_comm(World& world);

// Seconds of an all-reduce among all ranks whose bytes hardly count: they arrive, wait for each
// other and are woken. More than the latency of a link, on which both ends are awake. Called by all
// ranks; all get the same answer.
double time_short_call(World& world);

// What layers wait for: the latency is that of a short call, the bandwidth that of the slowest link
// that calibrate_comm finds. Nothing with one rank. Called by all ranks; all get the same answer.
LinkSpec measure_calls(World& world);

}  // namespace trireme
