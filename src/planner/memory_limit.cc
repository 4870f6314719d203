#include "planner/memory_limit.h"

#include <algorithm>

#include "base/units.h"

namespace trireme {

MemoryLimit::MemoryLimit(const RunConfig& config, const HostFacts& host, int num_ranks)
    : bytes_{.of_rank = config.memory.limit_bytes},
      is_of_machine_(bytes_.of_rank == 0 && host.ranks_on_host >= num_ranks) {
  if (bytes_.of_rank == 0) bytes_.of_all = host.memory_bytes / host.ranks_on_host * num_ranks;
}

bool MemoryLimit::allows(const NeededBytes& needed) const {
  return (bytes_.of_rank == 0 || needed.of_rank <= bytes_.of_rank) &&
         (bytes_.of_all == 0 || needed.of_all <= bytes_.of_all);
}

int64_t MemoryLimit::limited(const NeededBytes& needed) const {
  return bytes_.of_rank > 0 ? needed.of_rank : needed.of_all;
}

std::string MemoryLimit::text() const {
  return format_bytes(std::max(bytes_.of_rank, bytes_.of_all));
}

}  // namespace trireme
