#pragma once

#include <iosfwd>

#include "cli/bench_comm_command.h"
#include "comm/collective_check.h"

namespace trireme {

// `trireme bench comm --table`: for every number of ranks from 2 to o.ranks, every size and every
// algorithm of the collective a line with the bytes of all ranks by closed form and as measured,
// the latency and bandwidth terms of the busiest rank with this machine's alpha and beta, their
// sum as the planner prices it, and the measured seconds. `shared` has no such price. Ranks are
// threads. The Error names what was wrong.
Status print_cost_table(const BenchCommOptions& o, const CollectiveCase& c, std::ostream& out);

}  // namespace trireme
