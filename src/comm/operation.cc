#include "comm/operation.h"

#include "comm/group_driver.h"

namespace trireme {

bool Operation::advance() {
  try {
    if (!begun) {
      driver->begin(*this);
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
        complete = driver->board().advance();
        peer = complete ? -1 : driver->board().waiting_for();
        break;
      case Way::Native:
        complete = true;  // begin() has done all the work
        break;
    }
    waiting_for.store(peer < 0 ? -1 : driver->members()[size_t(peer)], std::memory_order_relaxed);
    if (complete) driver->complete(*this);
    return complete;
  } catch (const std::exception& error) {
    driver->fail(error.what());
    cancel();
    throw;
  }
}

void Operation::cancel() {
  if (!begun) return;
  if (way == Way::Messages) execution.cancel();
  if (way == Way::Shared) driver->board().cancel();
}

}  // namespace trireme
