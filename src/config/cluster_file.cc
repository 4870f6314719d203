#include "config/cluster_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/nearest_name.h"
#include "config/config_load.h"
#include "config/config_toml.h"
#include "trireme_cluster_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the first line that belongs to a RUN.toml and not to a hardware file, or null.
const ConfigAssignment* line_of_a_run(const std::vector<ConfigAssignment>& assignments) {
  RunConfig run;
  const std::vector<ConfigField> fields = config_fields(run);
  for (const ConfigAssignment& assignment : assignments) {
    for (const ConfigField& field : fields) {
      if (field.key() == assignment.key) return &assignment;
    }
  }
  return nullptr;
}

std::string unknown_key(const std::string& key, const std::vector<ConfigField>& fields) {
  std::vector<std::string> keys;
  for (const ConfigField& field : fields) keys.push_back(field.key());
  const std::string nearest = nearest_name(key, keys);
  return fmt::format("{} is unknown{}", key,
                     nearest.empty() ? fmt::format("; the keys are {}", fmt::join(keys, ", "))
                                     : "; did you mean " + nearest + "?");
}

// A short form for nodes and the links between them, as two tiers.
std::string long_form(const std::string& key) {
  for (const auto& [short_name, tier] :
       {std::pair{"node.ranks", "tiers.node.ranks"},
        {"inside_node.latency_s", "tiers.node.latency_s"},
        {"inside_node.bytes_per_s", "tiers.node.bytes_per_s"},
        {"between_nodes.latency_s", "tiers.cluster.latency_s"},
        {"between_nodes.bytes_per_s", "tiers.cluster.bytes_per_s"}}) {
    if (key == short_name) return tier;
  }
  return key;
}

// The last tier may leave out how many ranks it joins: all.
bool joins_fewer_ranks(const LinkTier& a, const LinkTier& b) {
  return a.ranks != 0 && (b.ranks == 0 || a.ranks < b.ranks);
}

LinkTier& tier_of(Hardware& hardware, std::string_view name) {
  for (LinkTier& tier : hardware.tiers) {
    if (tier.name == name) return tier;
  }
  return hardware.tiers.emplace_back(LinkTier{.name = std::string(name)});
}

void fill_in_flops(Hardware& hardware) {
  if (hardware.bf16_flops == 0.0) hardware.bf16_flops = hardware.fp32_flops;
  if (hardware.fp16_flops == 0.0) hardware.fp16_flops = hardware.bf16_flops;
}

// Keys that the table has not yet named take the values of [device].
OtherDevice& other_of(Hardware& hardware, const std::string& label) {
  for (OtherDevice& other : hardware.others) {
    if (other.label == label) return other;
  }
  OtherDevice other{.label = label, .device = hardware};
  other.device.others.clear();
  return hardware.others.emplace_back(std::move(other));
}

constexpr std::string_view kOwnNodes = "ranks_per_node";  // a key of a table [devices.LABEL]

// Stores the value of a line of a table [devices.LABEL].
Status assign_other(Hardware& hardware, const ConfigAssignment& assignment) {
  const std::string prefix = "devices.", key = assignment.key;
  const size_t end_of_label = key.rfind('.');
  OtherDevice none;
  std::vector<ConfigField> fields = device_fields(none);
  const auto is_meant = [&](const ConfigField& field) {
    return field.name == key.substr(end_of_label + 1);
  };
  const std::vector<ConfigField> of_cluster = hardware_fields(none.device);
  if (end_of_label < prefix.size()) {
    return usage(fmt::format("{} names no device: write it below [devices.NAME]", key));
  }
  if (std::none_of(fields.begin(), fields.end(), is_meant)) {
    if (std::any_of(of_cluster.begin(), of_cluster.end(), is_meant)) {
      return usage(fmt::format(
          "{} is a number of all ranks together: write {} below [device], as it is with the "
          "slowest device",
          key, key.substr(end_of_label + 1)));
    }
    return usage(unknown_key(key, fields));
  }
  OtherDevice& other = other_of(hardware, key.substr(prefix.size(), end_of_label - prefix.size()));
  fields = device_fields(other);
  const ConfigField& field = *std::find_if(fields.begin(), fields.end(), is_meant);
  TRIREME_TRY_DONE(assign(field, assignment));
  if (field.name != kOwnNodes || other.ranks_per_node > 0) return Done{};
  return usage(
      fmt::format("{} = {} must be at least 1; leave the line out if the nodes of this device have "
                  "as many ranks as those of [device]",
                  key, other.ranks_per_node));
}

// Refuses a table that only says how large its nodes are: no rank would have the device.
std::string nodes_without_ranks(const std::vector<ConfigAssignment>& assignments,
                                const Hardware& hardware) {
  for (const OtherDevice& other : hardware.others) {
    const std::string table = "devices." + other.label + ".";
    const auto has_only_nodes = [&](const ConfigAssignment& one) {
      return !one.key.starts_with(table) || one.key == table + std::string(kOwnNodes);
    };
    if (other.ranks_per_node == 0 ||
        !std::all_of(assignments.begin(), assignments.end(), has_only_nodes)) {
      continue;
    }
    std::vector<std::string> labels;
    for (const OtherDevice& one : hardware.others) {
      if (one.label != other.label) labels.push_back(one.label);
    }
    const std::string nearest = nearest_name(other.label, labels);
    return fmt::format("{}{} = {} describes nodes of a device that has no other line: {}", table,
                       kOwnNodes, other.ranks_per_node,
                       nearest.empty() ? "state its first_rank, and what differs from [device]"
                                       : fmt::format("did you mean [devices.{}]?", nearest));
  }
  return "";
}

// Stores the value of a line, in the device or in the tier that the key names.
Status assign_hardware(Hardware& hardware, const ConfigAssignment& assignment) {
  const std::string key = long_form(assignment.key);
  if (key.starts_with("devices.")) return assign_other(hardware, assignment);
  const size_t end_of_name = key.rfind('.');
  const std::string prefix = "tiers.";
  const bool is_of_tier = key.starts_with(prefix) && end_of_name > prefix.size();
  LinkTier none;
  std::vector<ConfigField> fields = hardware_fields(hardware);
  std::string wanted = key;
  if (is_of_tier) {
    const std::string name = key.substr(prefix.size(), end_of_name - prefix.size());
    wanted = prefix + key.substr(end_of_name + 1);
    fields = tier_fields(none);
    const bool is_known = std::any_of(fields.begin(), fields.end(),
                                      [&](const ConfigField& f) { return f.key() == wanted; });
    if (is_known) fields = tier_fields(tier_of(hardware, name));
  }
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const ConfigField& f) { return f.key() == wanted; });
  if (field == fields.end()) return Error{ErrorKind::Usage, unknown_key(assignment.key, fields)};
  return assign(*field, assignment);
}

// Where the value stands that a problem begins with, such as "device.matmul_share = -1 must be
// ..."; the file alone if it does not have this key.
std::string place_of(const std::string& problem, const std::vector<ConfigAssignment>& assignments,
                     const std::string& source) {
  std::string place = source;
  for (const ConfigAssignment& assignment : assignments) {
    if (problem.starts_with(long_form(assignment.key) + " ")) place = assignment.origin.where();
  }
  return place;
}

// Names the built-in clusters that may have been meant, or all, and how to describe another one.
std::string other_clusters(const std::string& name_or_path) {
  std::string meant = fs::path(name_or_path).stem().string();
  std::transform(meant.begin(), meant.end(), meant.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  const std::vector<std::string> all = built_in_clusters();
  std::vector<std::string> alike;
  if (const std::string nearest = nearest_name(meant, all); !nearest.empty()) {
    alike = {nearest};
  } else if (!meant.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(alike),
                 [&](const std::string& name) { return name.find(meant) != std::string::npos; });
  }
  return fmt::format(
      "{} {}; `trireme calibrate --out FILE` describes this machine, and "
      "docs/formats/hardware.md the lines of a file for another one",
      alike.empty() ? "the built-in clusters are" : "did you mean the built-in",
      fmt::join(alike.empty() ? all : alike, alike.empty() ? ", " : " or "));
}

}  // namespace

Result<Hardware> parse_hardware(std::string_view text, const std::string& source) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  if (const ConfigAssignment* line = line_of_a_run(assignments)) {
    return Error{
        ErrorKind::Usage,
        fmt::format("{}: {} is a key of a run, but a hardware file is expected here: use one "
                    "of clusters/, or write one with `trireme calibrate`",
                    line->origin.where(), line->key)};
  }
  Hardware hardware;
  std::vector<std::string> problems;
  // The tables of other devices come last, because they start from [device], wherever that stands.
  std::stable_partition(assignments.begin(), assignments.end(), [](const ConfigAssignment& one) {
    return !one.key.starts_with("devices.");
  });
  for (const ConfigAssignment& assignment : assignments) {
    if (assignment.key.starts_with("devices.")) fill_in_flops(hardware);
    const Status assigned = assign_hardware(hardware, assignment);
    if (!assigned.ok()) {
      problems.push_back(
          fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
    }
  }
  fill_in_flops(hardware);
  std::stable_sort(
      hardware.others.begin(), hardware.others.end(),
      [](const OtherDevice& a, const OtherDevice& b) { return a.first_rank < b.first_rank; });
  std::stable_sort(hardware.tiers.begin(), hardware.tiers.end(), joins_fewer_ranks);
  if (problems.empty()) {
    std::vector<std::string> impossible = validate(hardware);
    const std::string unknown = nodes_without_ranks(assignments, hardware);
    if (!unknown.empty()) impossible = {unknown};
    for (const std::string& problem : impossible) {
      problems.push_back(fmt::format("{}: {}", place_of(problem, assignments, source), problem));
    }
  }
  if (!problems.empty()) {
    return Error{ErrorKind::Usage, fmt::format("{}", fmt::join(problems, "\n"))};
  }
  return hardware;
}

std::vector<std::string> built_in_clusters() {
  std::vector<std::string> names;
  for (const embedded::NamedText& one : embedded::kClusterFiles) names.emplace_back(one.name);
  return names;
}

Result<Hardware> load_hardware(const std::string& name_or_path) {
  std::error_code ignored;
  if (!fs::exists(name_or_path, ignored)) {
    for (const embedded::NamedText& one : embedded::kClusterFiles) {
      const std::string file = std::string(one.name) + ".toml";
      if (name_or_path == one.name || name_or_path == file) {
        return parse_hardware(one.text, "clusters/" + file);
      }
    }
  }
  const Result<std::string> text = read_config_file(name_or_path);
  if (text.ok()) return parse_hardware(*text, name_or_path);
  if (fs::exists(name_or_path, ignored)) return text.error();
  return usage(fmt::format("{}\n{}", text.error().message, other_clusters(name_or_path)));
}

}  // namespace trireme
