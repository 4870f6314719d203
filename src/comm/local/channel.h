#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/collective.h"

namespace trireme {

// One direction between two ranks that are threads of one process. A message is a pointer to the
// sender's memory, which the receiver reads in place. Up to kInlineBytes it is a copy in the slot,
// so that short messages need no answer.
struct Channel {
  static constexpr int kSlots = 32;
  static constexpr int64_t kInlineBytes = 256;

  // A slot's state is 4 * ticket + stage; 0: never used.
  enum Stage : uint64_t { Posted = 1, Taking = 2, Taken = 3 };

  struct Message {
    alignas(64) std::atomic<uint64_t> state{0};
    int tag = 0;
    bool is_inline = false;
    int64_t bytes = 0;
    const std::byte* data = nullptr;
    Signature signature;
    std::array<std::byte, kInlineBytes> payload;
  };

  static uint64_t state_of(uint64_t ticket, Stage stage) { return 4 * ticket + stage; }
  Message& slot(uint64_t ticket) { return slots[ticket % kSlots]; }
  // Also true if the slot already holds a later message, because a state only grows.
  bool is_taken(uint64_t ticket) {
    return slot(ticket).state.load(std::memory_order_seq_cst) >= state_of(ticket, Taken);
  }

  alignas(64) uint64_t next_ticket = 1;    // used by the sender
  alignas(64) uint64_t first_untaken = 1;  // used by the receiver
  std::array<Message, kSlots> slots;
};

}  // namespace trireme
