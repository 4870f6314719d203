#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/collective.h"
#include "collectives/plan.h"

namespace trireme {

// Collectives of a group are ordered. send and recv use their own lane and are matched by tag.
enum class Lane : uint8_t { Collective, Direct };

// One direction of an exchange with one peer. The caller keeps it, and the memory it points to,
// until test() returns true.
struct Transfer {
  bool is_send = false;
  Lane lane = Lane::Collective;
  int peer = -1;  // rank in the group
  int tag = 0;
  const Signature* signature = nullptr;  // of the call; the receiver compares it with its own
  int64_t bytes = 0;
  const std::byte* source = nullptr;  // for a send
  std::byte* target = nullptr;        // for a recv
  // For a recv that reduces: target = operand op received.
  Landing landing = Landing::Copy;
  const std::byte* operand = nullptr;
  DType dtype = DType::U8;
  ReduceOp op = ReduceOp::Sum;

  // The fields below belong to the transport, from post() to completion.
  bool started = false;
  uint64_t ticket = 0;
  uint64_t turn = 0;      // see TransferTurns
  void* queue = nullptr;  // see TransferTurns
  void* state = nullptr;
};

// Writes or reduces `bytes` received bytes into the transfer's target at `offset`.
void land(const Transfer& transfer, int64_t offset, const std::byte* received, int64_t bytes);

// Moves messages between the ranks of one group. One object per rank and group. Messages of a pair
// of ranks with the same tag arrive in the order in which they were posted.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts a transfer without waiting.
  virtual void post(Transfer& transfer) = 0;
  // Drives the transfer. Returns true once the source may be reused or the target is complete. If
  // the peer's message belongs to another call, aborts all ranks and throws CommError.
  virtual bool test(Transfer& transfer) = 0;
  // Cancels a transfer whose wait has failed, so that its memory is no longer used.
  virtual void cancel(Transfer&) {}
};

}  // namespace trireme
