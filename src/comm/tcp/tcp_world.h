#pragma once

#include <functional>

#include "base/result.h"
#include "comm/tcp/rendezvous.h"
#include "comm/world.h"

namespace trireme {

// Runs `function` as one rank of a job whose ranks meet at place.rendezvous: every rank is a
// process, on one host or on many. Returns after the function has returned. Returns an Error if the
// rank cannot join. Throws RankError with the first cause if any rank has failed.
Status run_tcp_rank(const TcpPlace& place, const WorldOptions& options,
                    const std::function<void(World&)>& function);

}  // namespace trireme
