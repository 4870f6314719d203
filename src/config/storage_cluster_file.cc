#include "config/storage_cluster_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/nearest_name.h"
#include "config/bounded_field.h"
#include "config/config_load.h"
#include "config/config_toml.h"
#include "trireme_config_text.h"

namespace trireme {
namespace {

constexpr std::string_view kSection = "storage.";
constexpr double kMostStorageServers = 1e6;
constexpr double kMostRawBytes = 1e18;  // of one disk, and bytes per second

std::vector<BoundedField> storage_fields(StorageCluster& cluster) {
  return {word_field("name", &cluster.name),
          word_field("source", &cluster.source),
          number_field("servers", &cluster.servers, 1, kMostStorageServers),
          number_field("disks_per_server", &cluster.disks_per_server, 1, 1e4),
          number_field("domains", &cluster.domains, 0, kMostStorageServers),
          number_field("disk_bytes", &cluster.disk_bytes, 1, kMostRawBytes),
          number_field("full_share", &cluster.full_share, 1e-6, 1),
          number_field("chunk_bytes", &cluster.chunk_bytes, 1024, 1e12),
          number_field("bytes_per_s", &cluster.bytes_per_s, 1, kMostRawBytes),
          number_field("peak_bytes_per_s", &cluster.peak_bytes_per_s, 0, kMostRawBytes),
          number_field("rank_bytes_per_s", &cluster.rank_bytes_per_s, 0, kMostRawBytes),
          number_field("repair_bytes_per_s", &cluster.repair_bytes_per_s, 1, kMostRawBytes),
          number_field("detect_s", &cluster.detect_s, 0, kSecondsOfYear),
          {{"", "worst_first", "", FieldEffect::Speed, {}, &cluster.worst_first}},
          number_field("disk_losses_per_year", &cluster.disk_losses_per_year, 0, 1e3),
          number_field("server_losses_per_year", &cluster.server_losses_per_year, 0, 1e3),
          number_field("domain_losses_per_year", &cluster.domain_losses_per_year, 0, 1e3)};
}

void check_storage(const StorageCluster& cluster, const std::string& source,
                   std::vector<std::string>& problems) {
  const auto require = [&](bool is_given, std::string_view key, std::string_view meaning) {
    if (is_given) return;
    problems.push_back(fmt::format("{}: storage.{} is missing: say {}", source, key, meaning));
  };
  require(cluster.servers > 0, "servers", "how many servers there are");
  require(cluster.disk_bytes > 0.0, "disk_bytes", "how many bytes a disk has");
  require(cluster.bytes_per_s > 0.0, "bytes_per_s",
          "how many bytes per second all servers together read or write for long");
  require(cluster.repair_bytes_per_s > 0.0, "repair_bytes_per_s",
          "how many bytes per second repair may read and write on all servers together");
  if (cluster.domains > cluster.servers) {
    problems.push_back(fmt::format(
        "{}: storage.domains = {} must be at most storage.servers = {}: a server is in one domain",
        source, cluster.domains, cluster.servers));
  }
  if (cluster.peak_bytes_per_s > 0.0 && cluster.peak_bytes_per_s < cluster.bytes_per_s) {
    problems.push_back(
        fmt::format("{}: storage.peak_bytes_per_s = {:g} must be at least storage.bytes_per_s = "
                    "{:g}, or 0 for the same",
                    source, cluster.peak_bytes_per_s, cluster.bytes_per_s));
  }
  if (loss_units(cluster).empty()) {
    problems.push_back(
        fmt::format("{}: nothing is ever lost: set storage.disk_losses_per_year, such as 0.01, or "
                    "server_losses_per_year or domain_losses_per_year",
                    source));
  }
}

struct BuiltInCluster {
  std::string_view name, text;
};
constexpr BuiltInCluster kBuiltInClusters[] = {{"tectonic", embedded::kTectonicToml}};

}  // namespace

std::vector<std::string> built_in_storage_clusters() {
  std::vector<std::string> names;
  for (const BuiltInCluster& one : kBuiltInClusters) names.emplace_back(one.name);
  return names;
}

Result<StorageCluster> parse_storage_cluster(std::string_view text, const std::string& source) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  StorageCluster cluster;
  std::vector<std::string> problems;
  for (const ConfigAssignment& assignment : assignments) {
    Status assigned =
        usage(fmt::format("{} is unknown; a storage cluster has only [storage]", assignment.key));
    if (assignment.key.starts_with(kSection)) {
      assigned = assign_bounded(storage_fields(cluster), assignment.key.substr(kSection.size()),
                                assignment);
    }
    if (assigned.ok()) continue;
    problems.push_back(fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
  }
  if (problems.empty()) check_storage(cluster, source, problems);
  if (!problems.empty()) return usage(fmt::format("{}", fmt::join(problems, "\n")));
  return cluster;
}

Result<StorageCluster> load_storage_cluster(const std::string& name_or_path) {
  for (const BuiltInCluster& one : kBuiltInClusters) {
    if (one.name != name_or_path) continue;
    return parse_storage_cluster(one.text, fmt::format("clusters/storage/{}.toml", one.name));
  }
  std::error_code ignored;
  const bool is_name = name_or_path.find_first_of("./") == std::string::npos;
  if (is_name && !std::filesystem::exists(name_or_path, ignored)) {
    const std::string nearest = nearest_name(name_or_path, built_in_storage_clusters());
    return usage(fmt::format("--storage {}: no such file, and the built-in clusters are {}{}",
                             name_or_path, fmt::join(built_in_storage_clusters(), " and "),
                             nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  TRIREME_TRY(text, read_config_file(name_or_path));
  return parse_storage_cluster(text, name_or_path);
}

}  // namespace trireme
