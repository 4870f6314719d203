#include "schema/node_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

namespace trireme {
namespace {

int64_t or_all(int64_t ranks_per_node) {
  return ranks_per_node > 0 ? ranks_per_node : std::numeric_limits<int>::max();
}

}  // namespace

NodeMap::NodeMap(int64_t ranks_per_node) : parts_{{0, or_all(ranks_per_node), 0}} {}

void NodeMap::begin_part(int64_t first_rank, int64_t ranks_per_node) {
  const int64_t size = or_all(ranks_per_node);
  while (!parts_.empty() && parts_.back().first_rank >= first_rank) parts_.pop_back();
  if (parts_.empty()) {
    parts_ = {{0, size, 0}};
    return;
  }
  const Part& before = parts_.back();
  if (before.ranks_per_node == size) return;
  const int64_t last_node = (first_rank - 1 - before.first_rank) / before.ranks_per_node;
  parts_.push_back({first_rank, size, before.first_node + last_node + 1});
}

const NodeMap::Part& NodeMap::part_of(int64_t rank) const {
  size_t part = parts_.size() - 1;
  while (part > 0 && rank < parts_[part].first_rank) --part;
  return parts_[part];
}

int64_t NodeMap::node_of(int64_t rank) const {
  const Part& part = part_of(rank);
  return part.first_node + (rank - part.first_rank) / part.ranks_per_node;
}

NodeSizes NodeMap::sizes(int64_t first, int64_t last) const {
  if (are_equal()) return {};
  NodeSizes sizes{size_at(first), size_at(first)};
  for (const Part& part : parts_) {
    if (part.first_rank <= first || part.first_rank > last) continue;
    sizes.least = std::min(sizes.least, part.ranks_per_node);
    sizes.most = std::max(sizes.most, part.ranks_per_node);
  }
  return sizes;
}

std::string NodeMap::text(int64_t first, int64_t last) const {
  const NodeSizes all = sizes(first, last);
  if (all.most == 0) return "";
  return all.least == all.most ? fmt::format(", nodes of {} ranks", all.least)
                               : fmt::format(", nodes of {} to {} ranks", all.least, all.most);
}

std::vector<int64_t> NodeMap::sizes_of_run(int64_t num_ranks) const {
  std::set<int64_t> sizes;
  for (const Part& part : parts_) {
    if (part.first_rank < std::max<int64_t>(num_ranks, 1)) sizes.insert(part.ranks_per_node);
  }
  return {sizes.begin(), sizes.end()};
}

std::vector<int64_t> NodeMap::first_ranks(int64_t num_ranks) const {
  std::vector<int64_t> firsts;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    if (rank == 0 || !share_node(rank - 1, rank)) firsts.push_back(rank);
  }
  return firsts;
}

}  // namespace trireme
