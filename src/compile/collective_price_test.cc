#include "compile/collective_price.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

constexpr VectorMove kMoves[] = {VectorMove::AllReduce, VectorMove::ReduceScatter,
                                 VectorMove::AllGather};
constexpr double kMiB = 1048576.0;

// Eight devices of a node, and nodes whose devices have an adapter each.
Hardware nodes_of_eight() {
  Hardware hardware;
  hardware.multiprocessors = 108;
  hardware.collective_s = 30e-6;
  hardware.tiers = {{.name = "node", .ranks = 8, .link = {3.4e-6, 216e9}},
                    {.name = "cluster", .link = {14e-6, 20e9}}};
  return hardware;
}

Hardware with_sums_in_switch() {
  Hardware hardware = nodes_of_eight();
  hardware.tiers[0].link.bytes_per_s = 370e9;
  hardware.tiers[0].sums_in_switch = true;
  hardware.tiers[0].switch_share = 0.85;
  return hardware;
}

double ring_bytes(double vector_bytes, int64_t ranks, VectorMove move) {
  const double others = vector_bytes * double(ranks - 1) / double(ranks);
  return move == VectorMove::AllReduce ? 2.0 * others : others;
}

CollectivePrice price(const Hardware& hardware, RankSpan span, VectorMove move, double bytes) {
  return price_collective(hardware, span, move, ring_bytes(bytes, span.count, move));
}

// 8 x H100: algorithm bandwidth of all-reduces of 2 to 4 GiB with NVLink SHARP and with rings
// (NVIDIA/nccl, issue 1455; a ring's bus bandwidth is 365 to 370 GB/s for 2 to 8 devices).
TEST(CollectivePrice, SumsInTheSwitchAreAsFastAsMeasuredOnH100) {
  const Hardware hardware = with_sums_in_switch();
  for (const auto& [ranks, bytes_per_s] :
       {std::pair{int64_t{5}, 258e9}, {6, 265e9}, {7, 270e9}, {8, 273e9}}) {
    const CollectivePrice switched =
        price(hardware, {ranks, 1}, VectorMove::AllReduce, 4096.0 * kMiB);
    EXPECT_EQ(switched.method, CollectiveMethod::Switch) << ranks;
    EXPECT_NEAR(4096.0 * kMiB / switched.seconds / bytes_per_s, 1.0, 0.03) << ranks;
  }
  // With two or three devices a ring sends less than the switch.
  for (const int64_t ranks : {2, 3}) {
    EXPECT_EQ(price(hardware, {ranks, 1}, VectorMove::AllReduce, 4096.0 * kMiB).method,
              CollectiveMethod::Ring);
  }
  EXPECT_EQ(price(hardware, {8, 1}, VectorMove::AllGather, 4096.0 * kMiB).method,
            CollectiveMethod::Ring);
}

// NCCL takes protocols of short steps for small vectors, trees between nodes until the vector is
// large, and else rings.
TEST(CollectivePrice, TheMethodFollowsTheSizeAndTheGroup) {
  const Hardware hardware = nodes_of_eight();
  const auto all_reduce = [&](RankSpan span, double bytes) {
    return price(hardware, span, VectorMove::AllReduce, bytes);
  };
  EXPECT_EQ(all_reduce({8, 1}, 4096).protocol, WireProtocol::LL);
  EXPECT_EQ(all_reduce({8, 1}, 2.0 * kMiB).protocol, WireProtocol::LL128);
  EXPECT_EQ(text_of(all_reduce({8, 1}, 1024.0 * kMiB)), "ring, Simple");
  EXPECT_EQ(all_reduce({128, 1}, 1.0 * kMiB).method, CollectiveMethod::Tree);
  EXPECT_EQ(all_reduce({128, 1}, 4096.0 * kMiB).method, CollectiveMethod::Ring);
  EXPECT_EQ(price(hardware, {128, 1}, VectorMove::AllGather, kMiB).method, CollectiveMethod::Ring);
}

// NCCL's table of shares ends at 128 MiB, and larger vectors have the whole bandwidth of a tree.
TEST(CollectivePrice, TreesTakeNothingFromVectorsBeyondTheirTable) {
  Hardware hardware = nodes_of_eight();
  hardware.tiers[1].link.latency_s = 200e-6;  // so that a ring takes longer
  const auto tree = [&](double bytes) {
    const CollectivePrice found = price(hardware, {128, 1}, VectorMove::AllReduce, bytes);
    EXPECT_EQ(text_of(found), "tree, Simple");
    return found.seconds;
  };
  const double more = 1024.0 * kMiB, node_bytes_per_s = 8.0 * 20e9;
  EXPECT_NEAR(tree(2.0 * more) - tree(more), 2.0 * more / (0.92 * node_bytes_per_s), 1e-9);
}

// Of the steps of a ring over four nodes of eight, three lead to another node.
TEST(CollectivePrice, EveryStepOfARingTakesTheLatencyOfItsLink) {
  const Hardware hardware = nodes_of_eight();
  const double bytes = 4096.0 * kMiB;
  const CollectivePrice gather = price(hardware, {32, 1}, VectorMove::AllGather, bytes);
  EXPECT_EQ(text_of(gather), "ring, Simple");
  EXPECT_NEAR(gather.seconds, 30e-6 + 28 * 3.4e-6 + 3 * 14e-6 + bytes * 31 / 32 / 160e9, 1e-9);
  const CollectivePrice apart = price(hardware, {4, 8}, VectorMove::AllGather, bytes);
  EXPECT_NEAR(apart.seconds, 30e-6 + 3 * 14e-6 + bytes * 3 / 4 / 20e9, 1e-9);
}

const std::vector<RankSpan> kSpans = {{2, 1}, {8, 1}, {4, 8}, {16, 1}, {64, 1}, {6, 1}, {512, 1}};

TEST(CollectivePrice, IsMonotoneInBytesLatencyAndLinks) {
  for (const Hardware& hardware : {nodes_of_eight(), with_sums_in_switch()}) {
    for (const RankSpan span : kSpans) {
      for (const VectorMove move : kMoves) {
        double before_s = 0.0;
        for (double bytes = 64.0; bytes < 1e11; bytes *= 3.0) {
          const double seconds = price(hardware, span, move, bytes).seconds;
          EXPECT_GE(seconds, before_s);
          before_s = seconds;
          for (size_t tier = 0; tier < 2; ++tier) {
            Hardware far = hardware, narrow = hardware, fewer = hardware;
            far.tiers[tier].link.latency_s *= 2.0;
            narrow.tiers[tier].link.bytes_per_s /= 2.0;
            fewer.tiers[tier].oversubscription = 2.0;
            for (const Hardware& worse : {far, narrow, fewer}) {
              EXPECT_GE(price(worse, span, move, bytes).seconds, seconds);
            }
          }
        }
      }
    }
  }
}

// No method beats the links: bounds of the search rely on it.
TEST(CollectivePrice, NeverBeatsTheBandwidthBound) {
  for (const Hardware& hardware : {nodes_of_eight(), with_sums_in_switch()}) {
    for (const RankSpan span : kSpans) {
      for (const VectorMove move : kMoves) {
        const double bound = fastest_bytes_per_s(hardware, span, move);
        for (double bytes = 64.0; bytes < 1e12; bytes *= 10.0) {
          const double sent = ring_bytes(bytes, span.count, move);
          EXPECT_GE(price_collective(hardware, span, move, sent).seconds, sent / bound);
        }
      }
    }
  }
}

// A cluster that is described in more tiers of equal links costs the same.
TEST(CollectivePrice, EqualTiersMerge) {
  Hardware more = nodes_of_eight();
  more.tiers = {more.tiers[0],
                {.name = "rack", .ranks = 32, .link = {14e-6, 20e9}},
                {.name = "pod", .ranks = 256, .link = {14e-6, 20e9}},
                more.tiers[1]};
  for (const RankSpan span : {RankSpan{8, 1}, {16, 1}, {64, 1}, {512, 1}, {8, 8}, {64, 8}}) {
    for (const VectorMove move : kMoves) {
      for (const double bytes : {1e4, 1e7, 1e10}) {
        const double seconds = price(nodes_of_eight(), span, move, bytes).seconds;
        EXPECT_NEAR(price(more, span, move, bytes).seconds / seconds, 1.0, 1e-9);
      }
    }
  }
}

TEST(CollectivePrice, ProcessorsAndTorusesSendMessages) {
  Hardware processor = nodes_of_eight(), torus = nodes_of_eight();
  processor.multiprocessors = 0;
  torus.tiers[0].is_torus = true;
  for (const Hardware& hardware : {processor, torus}) {
    const CollectivePrice priced = price(hardware, {8, 1}, VectorMove::AllReduce, 1e9);
    EXPECT_EQ(priced.method, CollectiveMethod::Messages);
    EXPECT_EQ(priced.seconds,
              transfer_s(group_link(hardware, {8, 1}), ring_bytes(1e9, 8, VectorMove::AllReduce)));
  }
  // Between the nodes of the torus there is a switch.
  EXPECT_TRUE(has_device_library(torus, {4, 8}));
}

TEST(CollectivePrice, NothingSentCostsNothing) {
  EXPECT_EQ(price_collective(nodes_of_eight(), {1, 1}, VectorMove::AllReduce, 0.0).seconds, 0.0);
  EXPECT_EQ(price_collective(nodes_of_eight(), {8, 1}, VectorMove::AllReduce, 0.0).seconds, 0.0);
  Hardware unknown = nodes_of_eight();
  unknown.tiers[0].link.bytes_per_s = 0.0;
  EXPECT_EQ(price_collective(unknown, {8, 1}, VectorMove::AllReduce, 1e6).seconds, 0.0);
}

}  // namespace
}  // namespace trireme
