#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/collective.h"

namespace trireme {

// A collective of one rank as data: the ordered steps that a Transport executes, a planner prices
// and a test checks. Counts are elements, so one plan serves every dtype.

// Whose memory: the caller's input, the caller's output (the same for in-place collectives), or
// the group's scratch.
enum class Memory : uint8_t { In, Out, Tmp };

struct Piece {
  Memory memory = Memory::Out;
  int64_t begin = 0;
  int64_t count = 0;
};

// What happens to a received piece.
enum class Landing : uint8_t {
  Copy,         // recv = received
  ReduceRight,  // recv = operand op received: the operand belongs to lower ranks
  ReduceLeft,   // recv = received op operand
};

struct Step {
  enum class Kind : uint8_t {
    Exchange,     // send to one rank and receive from one, at once; either may be absent
    Copy,         // recv = send
    ReduceRanks,  // recv = the canonical tree over all ranks' pieces: own `operand`, the others'
                  // in Tmp at rank * recv.count
  };
  Kind kind = Kind::Exchange;
  int round = 0;     // all ranks number rounds alike; a rank may sit out a round
  int send_to = -1;  // rank in the group, -1: none
  int recv_from = -1;
  Piece send;
  Piece recv;
  Piece operand;  // Landing::Reduce*, ReduceRanks
  Landing landing = Landing::Copy;
};

struct CommPlan {
  std::vector<Step> steps;
  int rounds = 0;
  int64_t tmp_count = 0;        // elements of scratch
  Piece result;                 // what a Mean divides at the end; count 0: not on this rank
  bool result_is_mean = false;  // ReduceRanks has divided already
  bool sends_empty = false;     // empty messages are sent (barrier) or skipped, on both sides alike
};

struct PlanRequest {
  Collective collective = Collective::AllReduce;
  Algorithm algorithm = Algorithm::Ring;
  int rank = 0;
  int size = 1;
  int root = 0;
  // Elements of the full vector: of the result of all_gather, of one input of reduce_scatter, of
  // one rank's send buffer of all_to_all.
  int64_t count = 0;
  // Elements of every rank's part; empty: balanced. (all_to_all: what this rank sends to each.)
  std::span<const int64_t> counts;
  std::span<const int64_t> recv_counts;  // all_to_all with unequal counts: received from each
  std::span<const int> node_of;          // node of each rank, for Hierarchical; empty: one node
};

// Algorithm is one that moves messages (not Auto, Canonical, Shared, Native). An Error names the
// algorithms that this collective has for this number of ranks.
Result<CommPlan> plan_collective(const PlanRequest& request);

// The message algorithms of a collective for `size` ranks.
std::vector<Algorithm> algorithms_of(Collective collective, int size);

// Payload of one rank, in elements.
struct PlanTraffic {
  int64_t sent = 0;
  int64_t received = 0;
  int64_t sent_messages = 0;
  int64_t received_messages = 0;
};
PlanTraffic traffic_of(const CommPlan& plan);
// traffic_of(plan_collective(request)).sent, 0 where there is no such plan. A ring over all ranks
// is not written out: its steps are as many as twice the ranks.
int64_t sent_elements(const PlanRequest& request);

// The same for Algorithm::Shared, where a rank sends what others read of its buffers, its results
// included, and has no messages; up to kEagerBytes every rank reads every input instead.
inline constexpr int64_t kEagerBytes = 2048;
PlanTraffic shared_traffic(const PlanRequest& request, int64_t element_bytes);

}  // namespace trireme
