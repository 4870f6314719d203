#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/collective.h"

namespace trireme {

// A collective of one rank as data: ordered steps that a Transport executes, a planner prices and a
// test checks. Counts are in elements, so one plan serves every dtype.

// The memory of a piece: the caller's input, the caller's output (the same memory for in-place
// collectives), or the group's scratch.
enum class Memory : uint8_t { In, Out, Tmp };

struct Piece {
  Memory memory = Memory::Out;
  int64_t begin = 0;
  int64_t count = 0;
};

// How a received piece is stored.
enum class Landing : uint8_t {
  Copy,         // recv = received
  ReduceRight,  // recv = operand op received: the operand sums lower ranks
  ReduceLeft,   // recv = received op operand
};

struct Step {
  enum class Kind : uint8_t {
    Exchange,  // sends to one rank and receives from one rank at once; either may be absent
    Copy,      // recv = send
    // recv = sum in the canonical tree of the own `operand` and the other ranks' pieces, which are
    // in Tmp at rank * recv.count
    ReduceRanks,
  };
  Kind kind = Kind::Exchange;
  int round = 0;     // rounds have the same numbers on all ranks; a rank may skip a round
  int send_to = -1;  // rank in the group; -1: none
  int recv_from = -1;
  Piece send;
  Piece recv;
  Piece operand;  // for Landing::Reduce* and ReduceRanks
  Landing landing = Landing::Copy;
};

struct CommPlan {
  std::vector<Step> steps;
  int rounds = 0;
  int64_t tmp_count = 0;  // elements of scratch
  Piece result;           // the piece that a Mean divides at the end; count 0: not on this rank
  bool result_is_mean = false;  // ReduceRanks has already divided
  // True if empty messages are sent (barrier); false if both sides skip them.
  bool sends_empty = false;
};

struct PlanRequest {
  Collective collective = Collective::AllReduce;
  Algorithm algorithm = Algorithm::Ring;
  int rank = 0;
  int size = 1;
  int root = 0;
  // Elements of the full vector. It is the result of all_gather, one input of reduce_scatter, or
  // one rank's send buffer of all_to_all.
  int64_t count = 0;
  // Elements of every rank's part; empty: balanced. For all_to_all: what this rank sends to each
  // rank.
  std::span<const int64_t> counts;
  // For all_to_all with unequal counts: elements received from each rank.
  std::span<const int64_t> recv_counts;
  std::span<const int> node_of;  // node of each rank, for Hierarchical; empty: all on one node
};

// Plans an algorithm that sends messages (not Auto, Canonical, Shared or Native). The Error names
// the algorithms that exist for this collective and number of ranks.
Result<CommPlan> plan_collective(const PlanRequest& request);

// Returns the message algorithms of a collective for `size` ranks.
std::vector<Algorithm> algorithms_of(Collective collective, int size);

// Payload of one rank, in elements.
struct PlanTraffic {
  int64_t sent = 0;
  int64_t received = 0;
  int64_t sent_messages = 0;
  int64_t received_messages = 0;
};
PlanTraffic traffic_of(const CommPlan& plan);
// Returns traffic_of(plan_collective(request)).sent, or 0 if there is no such plan. A ring is
// computed without its plan, which has twice as many steps as ranks.
int64_t sent_elements(const PlanRequest& request);

// Traffic of Algorithm::Shared. There are no messages: a rank "sends" what others read of its
// buffers, its results included. Up to kEagerBytes every rank reads all of every input instead.
inline constexpr int64_t kEagerBytes = 2048;
PlanTraffic shared_traffic(const PlanRequest& request, int64_t element_bytes);

}  // namespace trireme
