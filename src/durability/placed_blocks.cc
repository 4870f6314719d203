#include "durability/placed_blocks.h"

#include <cmath>

namespace trireme {

PlacedBlocks::PlacedBlocks(const StorageCluster& cluster, const ParityCode& code)
    : chunks(double(code.num_data + code.num_parity)),
      num_parity(code.num_parity),
      disks(cluster.num_disks()),
      domains(double(cluster.num_domains())),
      // k chunks are read, and one is written.
      block_rebuild_s(cluster.chunk_bytes * double(code.num_data + 1) / cluster.repair_bytes_per_s),
      detect_s(cluster.detect_s),
      worst_first(cluster.worst_first),
      units(loss_units(cluster)) {
  blocks = std::floor(cluster.raw_bytes() * cluster.full_share / (cluster.chunk_bytes * chunks));
}

double PlacedBlocks::chunk_losses_per_s() const {
  double per_year = 0.0;
  for (const LossUnit& unit : units) per_year += unit.per_year;
  return per_year / kSecondsOfYear;
}

double PlacedBlocks::repair_share() const {
  double share = 0.0;
  for (const LossUnit& unit : units) {
    share += unit.count * unit.per_year / kSecondsOfYear * rebuild_s(blocks_on(unit));
  }
  return share;
}

}  // namespace trireme
