#include "durability/storage_cluster.h"

namespace trireme {

std::vector<LossUnit> loss_units(const StorageCluster& cluster) {
  const double domains = double(cluster.num_domains());
  const LossUnit all[] = {
      {"disks", cluster.num_disks(), cluster.disk_losses_per_year, 1.0},
      {"servers", double(cluster.servers), cluster.server_losses_per_year,
       double(cluster.disks_per_server)},
      {"domains", domains, cluster.domain_losses_per_year, cluster.num_disks() / domains}};
  std::vector<LossUnit> units;
  for (const LossUnit& unit : all) {
    if (unit.per_year > 0.0) units.push_back(unit);
  }
  return units;
}

}  // namespace trireme
