#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/collective.h"
#include "collectives/plan.h"

namespace trireme {

// Collectives of a group are ordered; send and recv are matched by tag beside them.
enum class Lane : uint8_t { Collective, Direct };

// One direction of one exchange with one peer. The caller keeps it, and the memory it names, until
// test() returns true.
struct Transfer {
  bool is_send = false;
  Lane lane = Lane::Collective;
  int peer = -1;  // rank in the group
  int tag = 0;
  const Signature* signature = nullptr;  // of the call; the receiver compares it
  int64_t bytes = 0;
  const std::byte* source = nullptr;  // send
  std::byte* target = nullptr;        // recv
  // recv: target = operand op received, for the landings that reduce.
  Landing landing = Landing::Copy;
  const std::byte* operand = nullptr;
  DType dtype = DType::U8;
  ReduceOp op = ReduceOp::Sum;

  // The transport's, from post() to completion.
  bool started = false;
  uint64_t ticket = 0;
  uint64_t turn = 0;      // see TransferTurns
  void* queue = nullptr;  // likewise
  void* state = nullptr;
};

// Lands `bytes` received bytes at `offset` of the transfer's target.
void land(const Transfer& transfer, int64_t offset, const std::byte* received, int64_t bytes);

// Moves messages between the ranks of one group; one object per rank and group. Messages of a pair
// of ranks and a tag arrive in the order in which they were posted.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts a transfer; never waits.
  virtual void post(Transfer& transfer) = 0;
  // Drives it; true once the source may be reused, or the target is complete. Throws CommError, and
  // has then aborted all ranks, when the peer's message belongs to another call.
  virtual bool test(Transfer& transfer) = 0;
  // Gives up a transfer whose wait has failed, so that its memory is no longer used.
  virtual void cancel(Transfer&) {}
};

}  // namespace trireme
