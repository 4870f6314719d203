#include "schema/mixed_cluster.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

// Neighbouring ranks that lie on nodes of one size, and the keys that say so.
struct RanksOnNodes {
  int64_t first = 0, count = 0;
  int64_t node = 1;  // ranks of one
  std::string count_key, node_key;
};

// Says why they do not fill whole nodes.
void check_whole_nodes(const RanksOnNodes& ranks, std::vector<std::string>& problems) {
  if (ranks.count <= 0 || ranks.count % ranks.node == 0) return;
  const int64_t stated = ranks.first + ranks.count;
  const int64_t whole = ranks.first + (ranks.count / ranks.node + 1) * ranks.node;
  problems.push_back(fmt::format(
      "{} = {} must be {}a multiple of {} = {}, because the ranks of a node have the same device: "
      "take {}",
      ranks.count_key, stated, ranks.first == 0 ? "" : fmt::format("{} plus ", ranks.first),
      ranks.node_key, ranks.node, whole));
}

// Says which nodes from `first` on would lie on both sides of a border of an outer tier.
void check_outer_tiers(const Hardware& hardware, const RanksOnNodes& ranks,
                       std::vector<std::string>& problems) {
  for (size_t i = 1; i < hardware.tiers.size(); ++i) {
    const LinkTier& tier = hardware.tiers[i];
    if (tier.ranks <= 0) continue;
    if (tier.ranks % ranks.node == 0 && ranks.first % ranks.node == 0) continue;
    problems.push_back(fmt::format(
        "{} = {} cuts nodes at the borders of tiers.{}: tiers.{}.ranks = {} and the first rank of "
        "these nodes, {}, must be multiples of it",
        ranks.node_key, ranks.node, tier.name, tier.name, tier.ranks, ranks.first));
  }
}

}  // namespace

void check_device_ranks(const Hardware& hardware, std::vector<std::string>& problems) {
  const bool has_nodes = !hardware.tiers.empty() && hardware.tiers[0].ranks > 0;
  const int64_t usual = has_nodes ? hardware.tiers[0].ranks : 1;
  const std::string usual_key =
      hardware.tiers.empty() ? "" : fmt::format("tiers.{}.ranks", hardware.tiers[0].name);
  // Numbers beyond their bounds have problems of their own, and sums of them may overflow.
  constexpr int64_t kMostRanks = 1'000'000'000;
  const auto is_within_bounds = [](int64_t ranks) { return ranks >= 0 && ranks <= kMostRanks; };
  if (!is_within_bounds(usual)) return;
  int64_t taken = 0;  // ranks below this one have a device
  bool takes_rest = false;
  for (const OtherDevice& other : hardware.others) {
    if (!is_within_bounds(other.first_rank) || !is_within_bounds(other.ranks) ||
        !is_within_bounds(other.ranks_per_node)) {
      continue;
    }
    const std::string label = "devices." + other.label;
    const bool has_own_nodes = other.ranks_per_node > 0;
    if (has_own_nodes && !has_nodes) {
      problems.push_back(
          fmt::format("{}.ranks_per_node = {}, but the file does not say which ranks of [device] "
                      "share a node: state the ranks of the innermost tier, such as "
                      "tiers.node.ranks = 8, and the links between nodes in a second tier",
                      label, other.ranks_per_node));
    }
    if (other.first_rank == 0 && other.ranks == 0) {
      problems.push_back(
          fmt::format("{}.first_rank = 0 leaves no rank to [device]: state the first rank that has "
                      "this device, or in {}.ranks how many ranks have it",
                      label, label));
    }
    if (takes_rest || other.first_rank < taken) {
      problems.push_back(
          fmt::format("{}.first_rank = {} has another device already: let the ranks of "
                      "two tables [devices.NAME] not overlap",
                      label, other.first_rank));
    }
    const RanksOnNodes own{.first = 0,
                           .count = other.ranks,
                           .node = has_own_nodes ? other.ranks_per_node : usual,
                           .count_key = label + ".ranks",
                           .node_key = has_own_nodes ? label + ".ranks_per_node" : usual_key};
    check_whole_nodes({taken, other.first_rank - taken, usual, label + ".first_rank", usual_key},
                      problems);
    check_whole_nodes(own, problems);
    if (has_own_nodes && has_nodes) {
      const int64_t end = other.first_rank + other.ranks;
      check_outer_tiers(hardware, {other.first_rank, 0, own.node, "", own.node_key}, problems);
      if (other.ranks > 0) check_outer_tiers(hardware, {end, 0, usual, "", usual_key}, problems);
    }
    taken = other.first_rank + other.ranks;
    takes_rest = other.ranks == 0;
    if ((other.device.memory_bytes == 0) != (hardware.memory_bytes == 0)) {
      problems.push_back(
          fmt::format("{}.memory_bytes = {} beside device.memory_bytes = {}: state the "
                      "memory of all devices, or of none",
                      label, other.device.memory_bytes, hardware.memory_bytes));
    }
  }
}

NodeMap Hardware::nodes() const {
  const int64_t own = tiers.empty() ? 1 : tiers.front().ranks;
  NodeMap nodes(own);
  for (const OtherDevice& other : others) {
    nodes.begin_part(other.first_rank, other.ranks_per_node > 0 ? other.ranks_per_node : own);
    if (other.ranks > 0) nodes.begin_part(other.first_rank + other.ranks, own);
  }
  return nodes;
}

bool Hardware::is_mixed() const { return !others.empty(); }

int Hardware::num_devices() const { return 1 + int(others.size()); }

int Hardware::device_of(int position) const {
  for (size_t i = 0; i < others.size(); ++i) {
    const OtherDevice& other = others[i];
    const bool is_before_end = other.ranks == 0 || position < other.first_rank + other.ranks;
    if (position >= other.first_rank && is_before_end) return int(i) + 1;
  }
  return 0;
}

int64_t Hardware::ranks_of_device(int device, int64_t num_ranks) const {
  int64_t of_others = 0, own = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    const OtherDevice& other = others[i];
    const int64_t behind = std::max<int64_t>(0, num_ranks - other.first_rank);
    const int64_t ranks = other.ranks == 0 ? behind : std::min(behind, other.ranks);
    if (int(i) + 1 == device) own = ranks;
    of_others += ranks;
  }
  return device == 0 ? num_ranks - of_others : own;
}

Hardware Hardware::all_of_device(int device) const {
  Hardware all = *this;
  all.others.clear();
  if (device == 0) return all;
  OtherDevice other = others[size_t(device) - 1];
  other.device.tiers = tiers;
  const bool has_own_nodes = other.ranks_per_node > 0 && !tiers.empty();
  if (has_own_nodes) other.device.tiers.front().ranks = other.ranks_per_node;
  other.device.practice = practice;
  return other.device;
}

Hardware Hardware::on_equal_nodes(int64_t ranks_per_node) const {
  Hardware equal = *this;
  if (nodes().are_equal()) return equal;
  equal.tiers.front().ranks = ranks_per_node;
  for (OtherDevice& other : equal.others) other.ranks_per_node = 0;
  return equal;
}

int64_t Hardware::most_memory_bytes() const {
  int64_t most = memory_bytes;
  for (const OtherDevice& other : others) most = std::max(most, other.device.memory_bytes);
  return most;
}

}  // namespace trireme
