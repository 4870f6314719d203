#pragma once

#include <vector>

#include "durability/storage_cluster.h"
#include "schema/parity_code.h"

namespace trireme {

// The blocks of one code on a cluster. Each has its chunks in domains that are chosen at random,
// and there on disks that are chosen at random. The cluster has at least as many domains as a block
// has chunks.
struct PlacedBlocks {
  PlacedBlocks(const StorageCluster& cluster, const ParityCode& code);

  // Blocks that lose a chunk if the unit is lost.
  double blocks_on(const LossUnit& unit) const { return blocks * chunks * unit.disks / disks; }
  // The probability that a block without chunks in `lost` domains has one on a unit of another
  // domain.
  double share_on(const LossUnit& unit, int lost) const {
    return (chunks - lost) / (domains - lost) * unit.disks * domains / disks;
  }
  // The time in which the whole cluster rebuilds one chunk of each of so many blocks.
  double rebuild_s(double num_blocks) const { return num_blocks * block_rebuild_s; }
  // Losses of a chunk per second.
  double chunk_losses_per_s() const;
  // The share of the time in which repair works. From 1 on it never catches up.
  double repair_share() const;

  double blocks = 0.0;  // on full disks
  double chunks = 0.0;  // of a block
  int num_parity = 0;
  double disks = 0.0;
  double domains = 0.0;
  double block_rebuild_s = 0.0;
  double detect_s = 0.0;
  bool worst_first = true;
  std::vector<LossUnit> units;
};

}  // namespace trireme
