#include "durability/plan_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

Status check_domains(const StorageCluster& cluster, const ParityCode& code) {
  const int chunks = code.num_data + code.num_parity;
  if (chunks <= cluster.num_domains()) return Done{};
  return infeasible(fmt::format(
      "a block of the code {}+{} has {} chunks in as many failure domains, and {} has {} ({}): "
      "take "
      "a code with fewer chunks, or {}",
      code.num_data, code.num_parity, chunks, cluster.name.empty() ? "the cluster" : cluster.name,
      cluster.num_domains(), cluster.domains > 0 ? "storage.domains" : "storage.servers",
      cluster.domains > 0 && cluster.servers >= chunks ? "more domains" : "more servers"));
}

// `stored_bytes` is what the storage writes for a byte of a checkpoint. The ranks write it, too,
// because they encode.
TransferTimes transfer_times(const CheckpointTraffic& traffic, const StorageCluster& cluster,
                             double bytes_per_s, double stored_bytes) {
  const double of_ranks = double(traffic.ranks) * cluster.rank_bytes_per_s;
  const double speed = of_ranks > 0.0 ? std::min(bytes_per_s, of_ranks) : bytes_per_s;
  return {traffic.save_bytes * stored_bytes / speed, traffic.restore_bytes / speed};
}

void add_traffic(const CheckpointTraffic& traffic, const StorageCluster& cluster,
                 CodeOnCluster& planned) {
  planned.sustained = transfer_times(traffic, cluster, cluster.bytes_per_s, planned.stored_bytes);
  planned.peak = transfer_times(traffic, cluster, cluster.peak(), planned.stored_bytes);
  if (traffic.interval_s > 0.0) {
    const double bytes_per_s = traffic.save_bytes * planned.stored_bytes / traffic.interval_s;
    planned.busy_share = bytes_per_s / cluster.bytes_per_s;
  }
  if (traffic.step_s > 0.0) {
    planned.least_steps =
        std::max<int64_t>(1, int64_t(std::ceil(planned.sustained.save_s / traffic.step_s)));
  }
}

}  // namespace

Result<StoragePlan> plan_storage(const StorageQuestion& question) {
  StoragePlan plan{.question = question};
  const StorageCluster& cluster = question.cluster;
  for (const ParityCode& code : question.codes) {
    TRIREME_TRY_DONE(check_domains(cluster, code));
    const PlacedBlocks placed(cluster, code);
    CodeOnCluster planned{.code = code};
    planned.stored_bytes = placed.chunks / double(code.num_data);
    planned.capacity_bytes = cluster.raw_bytes() * cluster.full_share / planned.stored_bytes;
    planned.write_bytes_per_s = cluster.bytes_per_s / planned.stored_bytes;
    planned.repair_share = placed.repair_share();
    planned.drawn = draw_losses(placed, question.seed, question.samples);
    planned.chain = chain_losses(placed);
    if (placed.blocks >= 1.0) {
      planned.lost_share_per_year =
          std::min(1.0, planned.drawn.rate.blocks_per_year / placed.blocks);
    }
    if (!planned.keeps_up()) planned.lost_share_per_year = 1.0;
    if (question.traffic) add_traffic(*question.traffic, cluster, planned);
    plan.codes.push_back(planned);
  }
  return plan;
}

}  // namespace trireme
