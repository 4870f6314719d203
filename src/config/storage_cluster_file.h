#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "durability/storage_cluster.h"

namespace trireme {

// Reads a storage cluster: the name of a built-in one, such as "tectonic", or a file of that format
// (docs/storage_plan.md). One error names every problem with its line.
Result<StorageCluster> load_storage_cluster(const std::string& name_or_path);
Result<StorageCluster> parse_storage_cluster(std::string_view text, const std::string& source);

// The names of the built-in clusters, those of clusters/storage.
std::vector<std::string> built_in_storage_clusters();

}  // namespace trireme
