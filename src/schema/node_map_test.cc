#include "schema/node_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "schema/hardware.h"

namespace trireme {
namespace {

// Kinds of nodes one behind the other: how many, and how many ranks each has. The odd kinds are
// those of other devices.
using Kinds = std::vector<std::pair<int, int>>;

// Returns the node of every rank, counted rank by rank.
std::vector<int> counted(const Kinds& kinds) {
  std::vector<int> node_of;
  int node = 0;
  for (const auto& [nodes, ranks] : kinds) {
    for (int i = 0; i < nodes; ++i, ++node) {
      for (int rank = 0; rank < ranks; ++rank) node_of.push_back(node);
    }
  }
  return node_of;
}

// The first and the third kind have the device and the nodes of the cluster.
Hardware cluster_of(const Kinds& kinds) {
  Hardware hardware;
  hardware.set_nodes(kinds[0].second, {1e-6, 1e9}, {1e-5, 1e8});
  const Hardware device = hardware;
  int64_t first = 0;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const int64_t ranks = int64_t{kinds[kind].first} * kinds[kind].second;
    if (kind % 2 == 1) {
      hardware.others.push_back({.label = std::to_string(kind),
                                 .first_rank = first,
                                 .ranks = ranks,
                                 .ranks_per_node = kinds[kind].second,
                                 .device = device});
    }
    first += ranks;
  }
  return hardware;
}

std::vector<Kinds> small_clusters() {
  std::vector<Kinds> all;
  for (int own = 1; own <= 4; ++own) {
    for (int other = 1; other <= 4; ++other) {
      for (int nodes = 1; nodes <= 2; ++nodes) {
        for (int last = 1; last <= 4; ++last) {
          all.push_back({{nodes, own}, {3 - nodes, other}, {nodes, own}, {1, last}});
        }
      }
    }
  }
  return all;
}

TEST(NodeMap, EveryRankIsOnTheNodeThatCountingRanksFinds) {
  for (const Kinds& kinds : small_clusters()) {
    const std::vector<int> node_of = counted(kinds);
    const NodeMap nodes = cluster_of(kinds).nodes();
    const auto num_ranks = int64_t(node_of.size());
    std::vector<int64_t> firsts;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      const int node = node_of[size_t(rank)];
      EXPECT_EQ(nodes.node_of(rank), node) << rank;
      EXPECT_EQ(nodes.size_at(rank), std::count(node_of.begin(), node_of.end(), node)) << rank;
      if (rank == 0 || node_of[size_t(rank) - 1] != node) firsts.push_back(rank);
    }
    EXPECT_EQ(nodes.first_ranks(num_ranks), firsts);
  }
}

TEST(NodeMap, SizesOfNeighboursAreThoseOfTheirNodes) {
  for (const Kinds& kinds : small_clusters()) {
    const NodeMap nodes = cluster_of(kinds).nodes();
    const auto num_ranks = int64_t(counted(kinds).size());
    std::set<int64_t> of_run;
    for (int64_t first = 0; first < num_ranks; ++first) {
      of_run.insert(nodes.size_at(first));
      EXPECT_EQ(nodes.sizes_of_run(first + 1), std::vector<int64_t>(of_run.begin(), of_run.end()));
      NodeSizes sizes{nodes.size_at(first), nodes.size_at(first)};
      for (int64_t last = first; last < num_ranks; ++last) {
        sizes.least = std::min(sizes.least, nodes.size_at(last));
        sizes.most = std::max(sizes.most, nodes.size_at(last));
        EXPECT_EQ(nodes.sizes(first, last), nodes.are_equal() ? NodeSizes{} : sizes);
      }
    }
  }
}

TEST(NodeMap, EqualSizesAreOnePartHoweverTheyAreWritten) {
  for (const int size : {1, 2, 4}) {
    const Hardware written = cluster_of({{1, size}, {2, size}, {1, size}, {1, size}});
    EXPECT_TRUE(written.nodes().are_equal());
    EXPECT_EQ(written.nodes().sizes(0, 100), NodeSizes{});
    EXPECT_EQ(written.nodes().text(0, 100), "");
  }
  EXPECT_TRUE(NodeMap(0).share_node(0, 1 << 20));
}

TEST(NodeMap, ADeviceAloneHasTheNodesOfItsKind) {
  const Hardware mixed = cluster_of({{1, 4}, {2, 3}, {1, 4}, {1, 2}});
  for (const auto& [device, size] : {std::pair{0, 4}, {1, 3}, {2, 2}}) {
    const NodeMap nodes = mixed.all_of_device(device).nodes();
    EXPECT_TRUE(nodes.are_equal());
    EXPECT_EQ(nodes.size_at(0), size);
  }
}

}  // namespace
}  // namespace trireme
