#pragma once

#include <cstdint>
#include <deque>

#include "comm/transport.h"

namespace trireme {

// Several transfers with the same peer and tag may be in flight. Whichever is tested first would
// take a message that belongs to an earlier one, so they take turns in the order in which they were
// posted. One thread at a time drives the transfers of a lane.
class TransferTurns {
 public:
  // Call it when the transfer is posted.
  void join(Transfer& t) {
    Queue& queue = queue_of(t);
    t.queue = &queue;
    t.turn = ++queue.joined;
  }
  bool is_next(const Transfer& t) const {
    return static_cast<const Queue*>(t.queue)->passed + 1 == t.turn;
  }
  // Call it when the transfer has its message, or has sent all of it.
  void pass(const Transfer& t) { ++static_cast<Queue*>(t.queue)->passed; }

 private:
  struct Queue {
    bool is_send = false;
    int peer = -1;
    int tag = 0;
    uint64_t joined = 0;
    uint64_t passed = 0;
  };

  Queue& queue_of(const Transfer& t) {
    std::deque<Queue>& queues = queues_[int(t.lane)];
    for (Queue& queue : queues) {
      if (queue.is_send == t.is_send && queue.peer == t.peer && queue.tag == t.tag) return queue;
    }
    return queues.emplace_back(Queue{t.is_send, t.peer, t.tag});
  }

  std::deque<Queue> queues_[2];  // [lane]; grows when a new kind of transfer is posted
};

}  // namespace trireme
