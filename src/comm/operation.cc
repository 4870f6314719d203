#include "comm/operation.h"

#include "comm/group.h"

namespace trireme {

bool Operation::advance() {
  try {
    if (!begun) {
      group->begin(*this);
      begun = true;
    }
    int peer = -1;
    bool complete = false;
    switch (way) {
      case Way::Messages:
        complete = execution.advance();
        peer = complete ? -1 : execution.waiting_for();
        break;
      case Way::Shared:
        complete = group->board().advance();
        peer = complete ? -1 : group->board().waiting_for();
        break;
      case Way::Native:
        complete = true;  // begin() has done all the work
        break;
    }
    waiting_for.store(peer < 0 ? -1 : group->members()[size_t(peer)], std::memory_order_relaxed);
    if (complete) group->complete(*this);
    return complete;
  } catch (const std::exception& error) {
    group->fail(error.what());
    cancel();
    throw;
  }
}

void Operation::cancel() {
  if (!begun) return;
  if (way == Way::Messages) execution.cancel();
  if (way == Way::Shared) group->board().cancel();
}

}  // namespace trireme
