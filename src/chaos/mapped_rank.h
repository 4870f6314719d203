#pragma once

#include <optional>
#include <vector>

#include "chaos/live_ranks.h"
#include "watch/rank_pages.h"

namespace trireme {

// A rank of a job, with the memory in which it shows its progress.
struct MappedRank {
  LiveRank rank;
  SharedRankPages pages;

  int number() const;  // in its epoch
};

// Returns those ranks of the list whose memory can be read. Ranks that end meanwhile are left out.
std::vector<MappedRank> mapped(const std::vector<LiveRank>& ranks);

}  // namespace trireme
