#pragma once

#include "comm/backend.h"
#include "comm/comm_thread.h"
#include "comm/waiter.h"

namespace trireme {

// State that the groups of one rank share.
struct RankContext {
  RankContext(Backend& rank_backend, const WorldOptions& world_options)
      : backend(rank_backend),
        options(world_options),
        page(world_options.page != nullptr ? *world_options.page : unseen_page),
        waiter(backend.fabric(), backend.rank(), page,
               {.spins = backend.spins(), .timeout_ns = int64_t(world_options.timeout_s * 1e9)}),
        thread(rank_backend) {}

  Backend& backend;
  WorldOptions options;
  ProgressPage unseen_page;  // of a rank without an agent
  ProgressPage& page;
  Waiter waiter;          // of the calling thread
  int next_group_id = 1;  // 0 is the world
  CommThread thread;      // last, so that it is joined before the other members are destroyed
};

}  // namespace trireme
