#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/nearest_name.h"
#include "config/bounded_field.h"
#include "config/cluster_file.h"
#include "config/config_load.h"
#include "serving/file_keys.h"
#include "serving/serving_files.h"

namespace trireme {
namespace {

constexpr double kMostMoney = 1e9;
constexpr double kMostBytes = 1e18;
constexpr size_t kMostTiers = 32;

struct WrittenTier : Tier {
  std::string where;
};
struct WrittenKind : WorkerKind {
  std::string tier_name, where;
};
struct WrittenTiers {
  std::vector<WrittenTier> tiers;
  std::vector<WrittenKind> kinds;
};

std::vector<BoundedField> tier_keys(WrittenTier& tier) {
  return {number_field("bytes_per_s", &tier.bytes_per_s, 0, kMostBytes),
          number_field("price_per_gb", &tier.price_per_gb, 0, kMostMoney),
          number_field("latency_s", &tier.latency_s, 0, 1e6)};
}

std::vector<BoundedField> kind_keys(WrittenKind& kind) {
  return {word_field("tier", &kind.tier_name),
          number_field("workers", &kind.workers, 0, double(kMostWorkers)),
          number_field("price_per_hour", &kind.price_per_hour, 0, kMostMoney),
          number_field("memory_bytes", &kind.memory_bytes, 0, kMostBytes),
          word_field("cluster", &kind.cluster),
          word_field("device", &kind.device)};
}

Status assign_tiers(WrittenTiers& written, const ConfigAssignment& assignment) {
  const std::vector<std::string> parts = key_parts(assignment.key);
  // An empty table is a tier without a link.
  if (parts.size() == 2 && parts[0] == "tiers" &&
      std::holds_alternative<OtherToml>(assignment.value)) {
    element_named(written.tiers, parts[1]).where = assignment.origin.where();
    return Done{};
  }
  if (parts.size() == 3 && parts[0] == "tiers") {
    WrittenTier& tier = element_named(written.tiers, parts[1]);
    if (tier.where.empty()) tier.where = assignment.origin.where();
    return assign_bounded(tier_keys(tier), parts[2], assignment);
  }
  if (parts.size() == 3 && parts[0] == "workers") {
    WrittenKind& kind = element_named(written.kinds, parts[1]);
    if (kind.where.empty()) kind.where = assignment.origin.where();
    return assign_bounded(kind_keys(kind), parts[2], assignment);
  }
  return usage(
      fmt::format("{} is unknown; tiers have [tiers.NAME], in the order in which data flow, and "
                  "[workers.NAME]; names have no dots",
                  assignment.key));
}

// Reads the device of a kind from its hardware file.
Status read_device(WrittenKind& kind, const std::string& folder) {
  if (kind.cluster.empty()) {
    if (kind.device.empty()) return Done{};
    return usage("has a device but no cluster: name the hardware file that has it");
  }
  TRIREME_TRY(hardware, load_hardware((std::filesystem::path(folder) / kind.cluster).string()));
  std::vector<std::string> labels;
  int number = 0;
  for (size_t i = 0; i < hardware.others.size(); ++i) {
    labels.push_back(hardware.others[i].label);
    if (labels.back() == kind.device) number = int(i) + 1;
  }
  if (!kind.device.empty() && number == 0) {
    return usage(fmt::format(
        "has the device \"{}\", but {} has {}", kind.device, kind.cluster,
        labels.empty() ? "no [devices.NAME]" : fmt::format("{}", fmt::join(labels, ", "))));
  }
  kind.hardware = hardware.all_of_device(number);
  if (kind.memory_bytes == 0.0) kind.memory_bytes = double(kind.hardware->memory_bytes);
  return Done{};
}

void check_kinds(WrittenTiers& written, const std::string& source, const std::string& folder,
                 std::vector<std::string>& problems) {
  if (written.tiers.empty()) {
    problems.push_back(fmt::format("{}: no tier: add [tiers.NAME], such as [tiers.edge]", source));
  }
  if (written.tiers.size() > kMostTiers) {
    const WrittenTier& beyond = written.tiers[kMostTiers];
    problems.push_back(
        fmt::format("{}: [tiers.{}] is one more than the {} tiers that there may "
                    "be: join it with a neighbour",
                    beyond.where, beyond.name, kMostTiers));
  }
  if (written.kinds.empty()) {
    problems.push_back(fmt::format("{}: no workers: add [workers.NAME] with a tier", source));
  }
  for (WrittenKind& kind : written.kinds) {
    const auto refuse = [&](const std::string& why) {
      problems.push_back(fmt::format("{}: [workers.{}] {}", kind.where, kind.name, why));
    };
    kind.tier = index_named(written.tiers, kind.tier_name);
    if (kind.tier_name.empty()) {
      refuse("must say in which tier it is");
    } else if (kind.tier < 0) {
      const std::string nearest = nearest_name(kind.tier_name, names_of(written.tiers));
      refuse(fmt::format("is in the tier {}, which is not there{}", kind.tier_name,
                         nearest.empty() ? "" : "; did you mean " + nearest + "?"));
    }
    const Status read = read_device(kind, folder);
    if (!read.ok()) refuse(read.error().message);
    if (read.ok() && kind.memory_bytes <= 0.0) {
      refuse("must say memory_bytes, or name with cluster a hardware file that does");
    }
  }
}

}  // namespace

Result<Tiers> parse_tiers(std::string_view text, const std::string& source,
                          const std::string& folder) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  WrittenTiers written;
  std::vector<std::string> problems;
  for (const ConfigAssignment& assignment : assignments) {
    const Status assigned = assign_tiers(written, assignment);
    if (assigned.ok()) continue;
    problems.push_back(fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
  }
  if (problems.empty()) check_kinds(written, source, folder, problems);
  if (!problems.empty()) return usage(fmt::format("{}", fmt::join(problems, "\n")));
  Tiers tiers;
  tiers.tiers.assign(written.tiers.begin(), written.tiers.end());
  tiers.kinds.assign(written.kinds.begin(), written.kinds.end());
  return tiers;
}

Result<Tiers> load_tiers(const std::string& path) {
  TRIREME_TRY(text, read_config_file(path));
  return parse_tiers(text, path, std::filesystem::path(path).parent_path().string());
}

}  // namespace trireme
