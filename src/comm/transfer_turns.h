#pragma once

#include <cstdint>
#include <deque>

#include "comm/transport.h"

namespace trireme {

// Several transfers with one peer and tag may be under way, and whichever is looked at first would
// take the message that is meant for an earlier one. So they take turns, in the order in which they
// were posted. One thread at a time drives the transfers of a lane.
class TransferTurns {
 public:
  // When the transfer is posted.
  void join(Transfer& t) {
    Queue& queue = queue_of(t);
    t.queue = &queue;
    t.turn = ++queue.joined;
  }
  bool is_next(const Transfer& t) const {
    return static_cast<const Queue*>(t.queue)->passed + 1 == t.turn;
  }
  // Once its message is found, or all of it is on its way.
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

  std::deque<Queue> queues_[2];  // [lane]; grows with the first transfer of a kind
};

}  // namespace trireme
