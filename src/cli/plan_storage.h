#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "durability/plan_storage.h"

namespace trireme {

// The options of `trireme plan` that ask what a storage cluster gives.
struct StorageOptions {
  std::string cluster;  // a file of a storage cluster, or the name of a built-in one; "": none
  std::string code;     // one more code beside the usual ones; "": none
};

std::vector<Option> storage_options(StorageOptions& options);
Status check_storage_options(const StorageOptions& options);

// Plans the code of the options and the usual codes. Without `traffic` there is no run whose
// checkpoints the cluster keeps. A usual code that the cluster has too few failure domains for is
// left out.
Result<StoragePlan> storage_plan(const StorageOptions& options,
                                 const std::optional<CheckpointTraffic>& traffic);

std::string storage_text(const StoragePlan& plan);
nlohmann::ordered_json storage_json(const StoragePlan& plan);

}  // namespace trireme
