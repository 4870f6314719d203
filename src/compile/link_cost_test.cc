#include "compile/link_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace trireme {
namespace {

Hardware hardware_with(std::vector<LinkTier> tiers) {
  Hardware hardware;
  hardware.tiers = std::move(tiers);
  return hardware;
}

Hardware two_tiers() {
  return hardware_with({{.name = "node", .ranks = 8, .link = {2e-6, 100e9}},
                        {.name = "cluster", .link = {10e-6, 10e9}}});
}

TEST(LinkCost, GroupsInsideANodeDoNotPayForTheLinksBetweenNodes) {
  EXPECT_EQ(group_link(two_tiers(), {8, 1}).bytes_per_s, 100e9);
  EXPECT_EQ(group_link(two_tiers(), {4, 2}).bytes_per_s, 100e9);
  // One rank of every node: its own adapter. All ranks of every node: the adapters of all.
  EXPECT_EQ(group_link(two_tiers(), {4, 8}).bytes_per_s, 10e9);
  EXPECT_EQ(group_link(two_tiers(), {32, 1}).bytes_per_s, 80e9);
  EXPECT_EQ(group_link(two_tiers(), {1, 8}).bytes_per_s, 0.0);
}

// Counts the ranks that a group has in its first part of a tier, and the parts of the tiers inside
// of it among these.
void expect_parts_are_counted(const Hardware& hardware, const Mesh& mesh, MeshAxis axis) {
  const std::vector<int> group = positions_along(mesh, axis, 0);
  const std::vector<TierPart> parts = parts_of(hardware.tiers, span_of(mesh, axis));
  int64_t inside = 1;  // ranks that one part of the tier inside joins
  for (size_t i = 0; i < parts.size(); ++i) {
    std::set<int64_t> first_part, parts_inside;
    for (const int position : group) {
      const int64_t ranks = hardware.tiers[i].ranks;
      if (ranks > 0 && position / ranks > 0) continue;
      first_part.insert(position);
      parts_inside.insert(position / inside);
    }
    EXPECT_EQ(parts[i].parts, int64_t(parts_inside.size())) << name_of(axis) << ", tier " << i;
    EXPECT_EQ(parts[i].below * parts[i].parts, int64_t(first_part.size())) << name_of(axis);
    inside = hardware.tiers[i].ranks;
  }
}

TEST(LinkCost, GroupsLieInTheTiersAsTheirPositionsDoInEveryOrderOfTheAxes) {
  const Hardware hardware = hardware_with(
      {{.name = "node", .ranks = 2}, {.name = "rack", .ranks = 4}, {.name = "cluster"}});
  for (Mesh mesh : {Mesh{2, 2, 2, 2}, Mesh{4, 1, 2, 2}, Mesh{2, 1, 4, 2}, Mesh{1, 2, 2, 4}}) {
    std::sort(mesh.order.begin(), mesh.order.end());
    do {
      SCOPED_TRACE(to_string(mesh.order));
      for (const MeshAxis axis : mesh.order) expect_parts_are_counted(hardware, mesh, axis);
    } while (std::next_permutation(mesh.order.begin(), mesh.order.end()));
  }
}

// Hybrid sharding: gathering inside a node and summing one eighth between nodes costs less than
// gathering over all nodes.
TEST(LinkCost, ShardsInsideANodeAreFasterThanShardsOverNodes) {
  const double bytes = 1e9;
  const double everywhere = transfer_s(group_link(two_tiers(), {64, 1}), bytes * 63 / 64);
  const double inside = transfer_s(group_link(two_tiers(), {8, 1}), bytes * 7 / 8);
  EXPECT_LT(inside, everywhere);
}

TEST(LinkCost, EqualTiersMerge) {
  const LinkSpec link{3e-6, 20e9};
  const Hardware one = hardware_with({{.name = "all", .link = link}});
  const Hardware three = hardware_with({{.name = "a", .ranks = 4, .link = link},
                                        {.name = "b", .ranks = 16, .link = link},
                                        {.name = "c", .link = link}});
  for (const RankSpan span : {RankSpan{2, 1}, {4, 1}, {16, 1}, {64, 1}, {8, 4}, {4, 16}, {64, 2}}) {
    EXPECT_EQ(group_link(one, span), group_link(three, span)) << span.count << " x " << span.stride;
    EXPECT_NEAR(exchange_link(one, span).bytes_per_s, exchange_link(three, span).bytes_per_s, 1.0);
  }
}

// No collective is faster than the adapters of a node let its data out.
TEST(LinkCost, NothingBeatsTheBandwidthOutOfANode) {
  for (const int64_t ranks : {16, 64, 512}) {
    const double least_s = 1e9 * double(ranks - 8) / double(ranks) / (8 * 10e9);
    const double sent = 1e9 * double(ranks - 1) / double(ranks);
    EXPECT_GE(transfer_s(group_link(two_tiers(), {ranks, 1}), sent), least_s);
    EXPECT_GE(transfer_s(exchange_link(two_tiers(), {ranks, 1}), sent), least_s);
  }
}

TEST(LinkCost, SlowerOrOversubscribedLinksAreNeverFaster) {
  for (const RankSpan span : {RankSpan{8, 1}, {64, 1}, {8, 8}}) {
    const double before_s = transfer_s(group_link(two_tiers(), span), 1e8);
    for (size_t tier = 0; tier < 2; ++tier) {
      Hardware slower = two_tiers(), narrower = two_tiers();
      slower.tiers[tier].link.latency_s *= 2.0;
      narrower.tiers[tier].oversubscription = 2.0;
      EXPECT_GE(transfer_s(group_link(slower, span), 1e8), before_s);
      EXPECT_GE(transfer_s(group_link(narrower, span), 1e8), before_s);
    }
  }
}

TEST(LinkCost, PairsUseTheInnermostTierThatJoinsThem) {
  EXPECT_EQ(pair_link(two_tiers(), 0, 7).bytes_per_s, 100e9);
  EXPECT_EQ(pair_link(two_tiers(), 7, 8).bytes_per_s, 10e9);
  EXPECT_EQ(pair_link(hardware_with({}), 0, 1).bytes_per_s, 0.0);
}

// The axes of a torus have links of their own, so a group over two axes has both.
TEST(LinkCost, AxesOfATorusAddTheirLinks) {
  const Hardware torus =
      hardware_with({{.name = "x", .ranks = 16, .link = {1e-6, 90e9}, .is_torus = true},
                     {.name = "y", .ranks = 256, .link = {1e-6, 90e9}, .is_torus = true}});
  EXPECT_EQ(group_link(torus, {16, 1}).bytes_per_s, 90e9);
  EXPECT_EQ(group_link(torus, {256, 1}).bytes_per_s, 180e9);
  EXPECT_NEAR(group_link(torus, {256, 1}).latency_s, 16e-6, 1e-12);
}

// Nodes that are joined in a ring: messages hop from node to node, and all adapters of a node carry
// what leaves it, as with a switch. The axes of a torus would add their links.
TEST(LinkCost, ARingOfNodesHasTheAdaptersOfANodeAndTheHopsOfARing) {
  Hardware ring = two_tiers();
  ring.tiers[1].is_ring = true;
  EXPECT_EQ(group_link(ring, {64, 1}).bytes_per_s, 80e9);
  EXPECT_NEAR(group_link(ring, {64, 1}).latency_s, 3 * 2e-6 + 4 * 10e-6, 1e-12);
  EXPECT_EQ(group_link(ring, {8, 1}), group_link(two_tiers(), {8, 1}));
  // A message to any of eight nodes goes two hops on average.
  EXPECT_NEAR(exchange_link(ring, {64, 1}).bytes_per_s,
              exchange_link(two_tiers(), {64, 1}).bytes_per_s / 2.0, 1.0);
  for (const RankSpan span : {RankSpan{16, 1}, {64, 1}, {8, 8}}) {
    EXPECT_GE(transfer_s(exchange_link(ring, span), 1e8),
              transfer_s(exchange_link(two_tiers(), span), 1e8));
  }
}

// The adapters of a node are shared by its ranks. One for each rank is the same as none stated, and
// more of them are never slower.
TEST(LinkCost, RanksShareTheAdaptersOfTheirNode) {
  Hardware four = two_tiers(), eight = two_tiers();
  four.tiers[1].adapters = 4;
  eight.tiers[1].adapters = 8;
  EXPECT_EQ(group_link(eight, {64, 1}), group_link(two_tiers(), {64, 1}));
  EXPECT_EQ(group_link(four, {64, 1}).bytes_per_s, 40e9);
  EXPECT_EQ(group_link(four, {4, 8}).bytes_per_s, 5e9);
  EXPECT_EQ(pair_link(four, 7, 8).bytes_per_s, 5e9);
  EXPECT_EQ(pair_link(four, 0, 7).bytes_per_s, 100e9);
  for (const RankSpan span : {RankSpan{16, 1}, {64, 1}, {8, 8}, {8, 1}}) {
    double before_s = transfer_s(group_link(four, span), 1e8);
    for (const int64_t adapters : {5, 8, 16, 64}) {
      Hardware more = four;
      more.tiers[1].adapters = adapters;
      const double seconds = transfer_s(group_link(more, span), 1e8);
      EXPECT_LE(seconds, before_s);
      before_s = seconds;
    }
  }
}

// Ranks of one processor read and write each other's vectors at the speed of their memory; on other
// devices, and between nodes, only links count.
TEST(LinkCost, RanksOfOneProcessorShareItsMemory) {
  Hardware hardware;
  hardware.memory_bytes_per_s = 1e10;
  hardware.set_nodes(4, {1e-6, 1e11}, {1e-5, 1e9});
  EXPECT_EQ(shared_memory_s(hardware, {2, 1}, VectorMove::AllReduce, 1e9), 0.0);
  hardware.matmul_bytes_per_s = 1e10;
  // Of M bytes two ranks send M in an all-reduce and M / 2 in its halves.
  EXPECT_DOUBLE_EQ(shared_memory_s(hardware, {2, 1}, VectorMove::AllReduce, 1e9), 0.2);
  EXPECT_DOUBLE_EQ(shared_memory_s(hardware, {2, 1}, VectorMove::ReduceScatter, 5e8), 0.2);
  EXPECT_DOUBLE_EQ(shared_memory_s(hardware, {2, 1}, VectorMove::AllGather, 5e8), 0.3);
  EXPECT_EQ(shared_memory_s(hardware, {2, 4}, VectorMove::AllReduce, 1e9), 0.0);
  EXPECT_EQ(shared_memory_s(hardware, {1, 1}, VectorMove::AllReduce, 1e9), 0.0);
}

// The first four nodes have eight ranks, the next ones four, behind them again eight. Ranks of a
// node share its adapters.
Hardware two_sizes(int64_t adapters = 0) {
  Hardware hardware = two_tiers();
  hardware.tiers[1].adapters = adapters;
  hardware.others.push_back(
      {.label = "b", .first_rank = 32, .ranks = 16, .ranks_per_node = 4, .device = hardware});
  return hardware;
}

TEST(LinkCost, PairsOnNodesOfTwoSizesAreJoinedByTheTierThatJoinsTheirNodes) {
  const Hardware hardware = two_sizes();
  const NodeMap nodes = hardware.nodes();
  for (int from = 0; from < 64; ++from) {
    for (int to = 0; to < 64; ++to) {
      const size_t tier = nodes.share_node(from, to) ? 0 : 1;
      EXPECT_EQ(pair_link(hardware, from, to), hardware.tiers[tier].link) << from << " " << to;
    }
  }
  // Of four adapters, a rank has half of one on nodes of eight, and one on nodes of four.
  const Hardware shared = two_sizes(4);
  EXPECT_EQ(pair_link(shared, 0, 8).bytes_per_s, 5e9);
  EXPECT_EQ(pair_link(shared, 32, 36).bytes_per_s, 10e9);
  EXPECT_EQ(pair_link(shared, 31, 32).bytes_per_s, 5e9);
}

// A group on nodes of one size has the links of a cluster of these nodes; on nodes of both sizes it
// is no faster than on those of either.
TEST(LinkCost, GroupsOnNodesOfTwoSizesAreNoFasterThanOnThoseOfOne) {
  for (const int64_t adapters : {0, 4}) {
    const Hardware mixed = two_sizes(adapters);
    for (const RankSpan span : {RankSpan{2, 1}, RankSpan{4, 1}, RankSpan{8, 1}, RankSpan{16, 1},
                                RankSpan{4, 4}, RankSpan{2, 8}, RankSpan{8, 2}}) {
      const auto links = [&](const Hardware& hardware, NodeSizes nodes) {
        const RankSpan on{span.count, span.stride, nodes};
        return std::pair(group_link(hardware, on), exchange_link(hardware, on));
      };
      const auto [group, exchange] = links(mixed, {4, 8});
      for (const auto& [device, size] : {std::pair{0, 8}, {1, 4}}) {
        const auto alone = links(mixed.all_of_device(device), {});
        EXPECT_EQ(links(mixed, {size, size}), alone) << size;
        EXPECT_LE(group.bytes_per_s, alone.first.bytes_per_s);
        EXPECT_LE(exchange.bytes_per_s, alone.second.bytes_per_s);
        EXPECT_GE(group.latency_s, alone.first.latency_s);
      }
    }
  }
}

TEST(LinkCost, APlaceLiesOnTheNodesOfItsRanks) {
  const Hardware hardware = two_sizes();
  const Mesh stages{
      .tp = 4, .pp = 3, .dp = 4, .order = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Dp, MeshAxis::Pp}};
  EXPECT_EQ(nodes_of_place(hardware, stages, 0), (NodeSizes{8, 8}));
  EXPECT_EQ(nodes_of_place(hardware, stages, 2), (NodeSizes{4, 4}));
  Mesh scattered = stages;
  scattered.order = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Pp, MeshAxis::Dp};
  EXPECT_EQ(nodes_of_place(hardware, scattered, 0), (NodeSizes{4, 8}));
  EXPECT_EQ(nodes_of_place(two_tiers(), stages, 0), NodeSizes{});
}

}  // namespace
}  // namespace trireme
