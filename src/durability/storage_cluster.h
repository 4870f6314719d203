#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr double kSecondsOfYear = 365.25 * 86400.0;

// Servers with disks that keep files as blocks of chunks: a file of clusters/storage
// (docs/storage_plan.md).
struct StorageCluster {
  std::string name;
  std::string source;
  int64_t servers = 0;
  int64_t disks_per_server = 1;
  // A block has at most one chunk in a failure domain. 0: every server is one.
  int64_t domains = 0;
  double disk_bytes = 0.0;
  double full_share = 1.0;  // of the bytes of the disks that hold chunks
  double chunk_bytes = 8.0 * 1024.0 * 1024.0;
  double bytes_per_s = 0.0;         // that the servers together read or write for long
  double peak_bytes_per_s = 0.0;    // and for a short time; 0: the same
  double rank_bytes_per_s = 0.0;    // that one rank of a job reads or writes; 0: no limit
  double repair_bytes_per_s = 0.0;  // that repair reads and writes on all servers together
  double detect_s = 0.0;            // from a loss until its repair begins
  bool worst_first = true;          // blocks that have lost most chunks are repaired first
  // Losses for good of one disk, of one server with all its disks, of one domain with all its
  // servers.
  double disk_losses_per_year = 0.0;
  double server_losses_per_year = 0.0;
  double domain_losses_per_year = 0.0;

  int64_t num_domains() const { return domains > 0 ? domains : servers; }
  double num_disks() const { return double(servers) * double(disks_per_server); }
  double raw_bytes() const { return num_disks() * disk_bytes; }
  double peak() const { return peak_bytes_per_s > 0.0 ? peak_bytes_per_s : bytes_per_s; }
};

// Equal parts of a cluster that are lost one by one, as disks are.
struct LossUnit {
  std::string_view name;  // such as "disks"
  double count = 0.0;
  double per_year = 0.0;  // losses of one of them
  double disks = 0.0;     // that it takes away
};
// Those that are ever lost.
std::vector<LossUnit> loss_units(const StorageCluster& cluster);

}  // namespace trireme
