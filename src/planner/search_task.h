#pragma once

#include <vector>

#include "planner/layout_bound.h"
#include "planner/layout_space.h"
#include "planner/memory_limit.h"

namespace trireme {

// The choices of memory.offload, of buckets and of prefetched units that a search has.
struct TransferChoices {
  std::vector<OffloadChoice> offloads;  // rising
  std::vector<int64_t> bucket_bytes;    // the configured one first
  std::vector<int> prefetches;          // the configured one first

  int largest_offload() const { return int(offloads.size()) - 1; }  // its ranks need the least
  // The configured buckets and prefetch with offloads[offload].
  LayoutTransfers with_offload(int offload) const;
  // Those that differ for a layout and keep its offload, the configured ones first.
  std::vector<LayoutTransfers> differing_for(const LayoutChoice& layout,
                                             LayoutBounds& bounds) const;
};
// Choices of memory.offload that a rule refuses are left out.
TransferChoices transfer_choices(const RunConfig& config, const HostFacts& host,
                                 const LayoutSpace& space);

NeededBytes needed_bytes(const RunPlan& compiled);

// A search starts from these. The space and the hardware must outlive it.
struct SearchTask {
  RunConfig config;     // its layout is that of one rank
  Recompute recompute;  // as configured
  HostFacts host;
  const Hardware& hardware;
  const LayoutSpace& space;
  RunPlan started;
  MemoryLimit limit;
  TransferChoices transfers;
  // Whether every choice of memory.offload is tried: a larger one is never faster, but it may need
  // less memory. Else it is tried only where the one before does not fit.
  bool tries_all_offloads = false;

  int num_ranks() const { return space.meshes.front().size(); }
  // The plan of a layout, before it is outlined.
  RunPlan plan_of(const LayoutChoice& layout) const;
};

}  // namespace trireme
