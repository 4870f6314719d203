#include "train/agree_on_plan.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "comm/gather_text.h"

namespace trireme {

Status agree_on_plan(World& world, const RunPlan& plan) {
  uint64_t hash = 0;
  for (const RankPlan& rank : plan.ranks) {
    hash = hash64(to_string(rank.program, plan.schedule.num_chunks), hash);
  }
  const std::vector<std::string> hashes = gather_text(world.group(), hex64(hash));
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    return Error{ErrorKind::Usage,
                 fmt::format("rank 0 and rank {} have compiled different programs: the "
                             "configuration, the memory that is free or the file of run.hardware "
                             "differ between their hosts; set memory.limit_bytes and give all "
                             "hosts the same files",
                             rank)};
  }
  return Done{};
}

}  // namespace trireme
