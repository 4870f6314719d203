#pragma once

#include <vector>

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

// The same for a call that the communication thread makes while its rank waits for it.
double time_background_call(World& world);

// Returns the seconds for which the communication threads keep a core busy per byte that a rank
// sends in an exchange of long messages, while it receives as many: they copy it, check it and hand
// it to the system. All ranks call it and get the same answer. 0: there is one rank.
double core_seconds_per_byte(World& world);

// The links of a world as layers see them. All numbers of a link that does not exist are 0.
struct MeasuredCalls {
  int ranks_per_node = 1;        // see neighbours_per_node
  LinkSpec inside;               // a node
  LinkSpec between;              // nodes
  double background_s = 0.0;     // by which a call of the communication thread takes longer
  double core_s_per_byte = 0.0;  // core_seconds_per_byte
};

// Returns how many neighbouring ranks share a node: all blocks of that many ranks, but for a
// shorter last one, are a node each. Returns 1 if the nodes of the world are no such blocks.
int neighbours_per_node(const std::vector<int>& node_of);

// The latency of a world's slowest link is that of a short call; the others are those of
// calibrate_comm. All ranks call it and get the same answer.
MeasuredCalls measure_calls(World& world);

}  // namespace trireme
