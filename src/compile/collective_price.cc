#include "compile/collective_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace trireme {
namespace {

// NCCL's model of a protocol (NVIDIA/nccl 2.24, graph/tuning.cc; the share of LL is older).
// A file states the latency of one step of a ring with Simple; the others follow in proportion.
struct ProtocolFacts {
  double more_s;     // of a collective, beside those of Simple
  double bandwidth;  // share of the links' that is left beside flags and waiting
  // Latency of a step / that of a ring with Simple: [0] inside the innermost tier, [1] outside.
  double ring[2];
  double tree[2];
};
constexpr double kRingInside_us = 3.4, kRingOutside_us = 14.0;
constexpr ProtocolFacts kProtocols[] = {
    {0.0, 1.0, {1.0, 1.0}, {4.0 / kRingInside_us, 14.0 / kRingOutside_us}},
    {5.6e-6,
     0.92,
     {1.9 / kRingInside_us, 4.0 / kRingOutside_us},
     {1.25 / kRingInside_us, 8.5 / kRingOutside_us}},
    {-1.8e-6,
     0.25,
     {0.6 / kRingInside_us, 2.7 / kRingOutside_us},
     {0.6 / kRingInside_us, 5.0 / kRingOutside_us}}};
constexpr int kNumProtocols = 3;

constexpr double kTreeBandwidth = 0.92;  // of a ring's
// NCCL 2.7 leaves these shares of it to vectors of 64 B, 128 B and so on. Larger vectors than those
// of its table keep all of it: that is the last number.
constexpr double kTreeShares[][23] = {
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1.},
    {1., 1., 1., 1., 1., .9, .8, .8, .8, .7, .6, .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, 1., 1.},
    {1., 1., 1., 1., .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1., 1., 1., 1.}};
constexpr double kLastTreeShare = 22.0;
// A ring between nodes with Simple, for all but the smallest vectors.
constexpr double kPlateau = 1.4;
constexpr double kSwitchInside = 25.0 / kRingInside_us, kSwitchOutside = 18.0 / kRingOutside_us;

// A vector and the group that exchanges it.
struct VectorExchange {
  const Hardware& hardware;
  std::vector<TierPart> parts;
  double ranks = 1.0;
  bool is_sum = false;        // all-reduce
  double vector_bytes = 0.0;  // the whole vector
  double bytes_per_s = 0.0;   // of what a rank sends in a ring
};

double ring_share(VectorMove move, double ranks) {
  const double others = 1.0 - 1.0 / ranks;
  return move == VectorMove::AllReduce ? 2.0 * others : others;
}

// Seconds of a collective beside its steps and bytes.
double base_s(const VectorExchange& exchange, const ProtocolFacts& facts) {
  return std::max(0.0, exchange.hardware.collective_s + facts.more_s);
}

// Every rank passes on what it has received. Of the n - 1 steps once round the ring, those between
// two parts of a tier take its latency.
double ring_s(const VectorExchange& exchange, int protocol) {
  const ProtocolFacts& facts = kProtocols[protocol];
  double once_s = 0.0, steps_below = 0.0;
  bool is_outside = false;
  for (size_t i = exchange.parts.size(); i-- > 0;) {
    const TierPart& part = exchange.parts[i];
    const double steps = std::ceil(exchange.ranks / double(part.below)) - 1.0;
    once_s += (steps - steps_below) * part.tier->link.latency_s * facts.ring[i > 0];
    if (i > 0 && steps > 0.0) is_outside = true;
    steps_below = steps;
  }
  const bool has_plateau = is_outside && exchange.is_sum && protocol == int(WireProtocol::Simple);
  const double rounds = exchange.is_sum ? 2.0 : 1.0;
  const double sent =
      exchange.vector_bytes *
      ring_share(exchange.is_sum ? VectorMove::AllReduce : VectorMove::AllGather, exchange.ranks);
  return base_s(exchange, facts) + rounds * once_s * (has_plateau ? kPlateau : 1.0) +
         sent / (exchange.bytes_per_s * facts.bandwidth);
}

double tree_share(int protocol, double bytes) {
  const double place = std::clamp(std::log2(bytes / 64.0), 0.0, kLastTreeShare);
  const auto below = size_t(std::min(std::floor(place), kLastTreeShare - 1.0));
  const double* shares = kTreeShares[protocol];
  return std::lerp(shares[below], shares[below + 1], place - double(below));
}

// The vector goes up a tree as sums and comes down again.
double tree_s(const VectorExchange& exchange, int protocol) {
  const ProtocolFacts& facts = kProtocols[protocol];
  double once_s = 0.0;
  for (size_t i = 0; i < exchange.parts.size(); ++i) {
    const double parts = double(exchange.parts[i].parts);
    const double steps = i == 0 ? parts - 1.0 : std::log2(parts);
    once_s += steps * exchange.parts[i].tier->link.latency_s * facts.tree[i > 0];
  }
  return base_s(exchange, facts) + 2.0 * once_s +
         2.0 * exchange.vector_bytes /
             (exchange.bytes_per_s * kTreeBandwidth * facts.bandwidth *
              tree_share(protocol, exchange.vector_bytes));
}

struct SwitchTimes {
  double latency_s = 0.0;
  double bytes_s = 0.0;
};

// Every rank gives its vector to the switch and spreads its part of the sum; to the next tier it
// gives its part alone. Returns nullopt if a tier between the ranks does not add.
std::optional<SwitchTimes> switch_times(const VectorExchange& exchange) {
  SwitchTimes times{exchange.hardware.collective_s};
  for (size_t i = 0; i < exchange.parts.size(); ++i) {
    const TierPart& part = exchange.parts[i];
    if (part.parts == 1) continue;
    if (!part.tier->sums_in_switch) return std::nullopt;
    times.latency_s += part.tier->link.latency_s * (i > 0 ? kSwitchOutside : kSwitchInside);
    const double sent =
        exchange.vector_bytes / double(part.below) * (1.0 + 1.0 / double(part.parts));
    times.bytes_s = std::max(times.bytes_s, sent / (part.bytes_per_s * part.tier->switch_share));
  }
  return times;
}

VectorExchange exchange_of(const Hardware& hardware, RankSpan span, VectorMove move,
                           double sent_bytes) {
  VectorExchange exchange{hardware, parts_of(hardware.tiers, span), double(span.count),
                          move == VectorMove::AllReduce};
  exchange.vector_bytes = vector_bytes(span, move, sent_bytes);
  exchange.bytes_per_s = group_link(hardware, span).bytes_per_s;
  return exchange;
}

CollectivePrice least_of_library(const VectorExchange& exchange) {
  CollectivePrice least{CollectiveMethod::Ring, WireProtocol::Simple, ring_s(exchange, 0)};
  const auto take = [&](CollectiveMethod method, int protocol, double seconds) {
    if (seconds < least.seconds) least = {method, WireProtocol(protocol), seconds};
  };
  // Inside the innermost tier a tree is a chain. The measured all-reduces there are those of rings.
  const bool has_trees = exchange.is_sum && exchange.parts.front().parts < exchange.ranks;
  for (int protocol = 0; protocol < kNumProtocols; ++protocol) {
    take(CollectiveMethod::Ring, protocol, ring_s(exchange, protocol));
    if (has_trees) take(CollectiveMethod::Tree, protocol, tree_s(exchange, protocol));
  }
  if (!exchange.is_sum) return least;
  if (const auto times = switch_times(exchange)) {
    take(CollectiveMethod::Switch, 0, times->latency_s + times->bytes_s);
  }
  return least;
}

}  // namespace

std::string_view name_of(CollectiveMethod method) {
  constexpr std::string_view kNames[] = {"messages", "ring", "tree", "sums in the switch"};
  return kNames[size_t(method)];
}

std::string_view name_of(WireProtocol protocol) {
  constexpr std::string_view kNames[] = {"Simple", "LL128", "LL"};
  return kNames[size_t(protocol)];
}

std::string text_of(const CollectivePrice& price) {
  return price.has_protocol()
             ? fmt::format("{}, {}", name_of(price.method), name_of(price.protocol))
             : std::string(name_of(price.method));
}

bool has_device_library(const Hardware& hardware, RankSpan span) {
  if (hardware.multiprocessors == 0 || hardware.is_processor()) return false;
  const std::vector<TierPart> parts = parts_of(hardware.tiers, span);
  return std::all_of(parts.begin(), parts.end(), [](const TierPart& part) {
    return part.parts == 1 || part.tier->has_switch();
  });
}

double vector_bytes(RankSpan span, VectorMove move, double sent_bytes) {
  return sent_bytes / ring_share(move, double(span.count));
}

CollectivePrice price_collective(const Hardware& hardware, RankSpan span, VectorMove move,
                                 double sent_bytes) {
  if (sent_bytes <= 0.0 || span.count < 2) return {};
  if (!has_device_library(hardware, span)) {
    return {.seconds = transfer_s(group_link(hardware, span), sent_bytes)};
  }
  const VectorExchange exchange = exchange_of(hardware, span, move, sent_bytes);
  if (exchange.bytes_per_s <= 0.0) return {.method = CollectiveMethod::Ring};
  return least_of_library(exchange);
}

double collectives_s(const Hardware& hardware, RankSpan span, VectorMove move, double sent_bytes,
                     double messages) {
  if (messages <= 0.0) return transfer_s(group_link(hardware, span), sent_bytes, messages);
  return messages * price_collective(hardware, span, move, sent_bytes / messages).seconds;
}

double vectors_s(const Hardware& hardware, RankSpan span, VectorMove move, double sent_bytes,
                 double messages) {
  if (sent_bytes <= 0.0) return 0.0;
  if (has_device_library(hardware, span)) {
    return collectives_s(hardware, span, move, sent_bytes, messages);
  }
  const LinkSpec link = group_link(hardware, span);
  const double moved_s = shared_memory_s(hardware, span, move, sent_bytes);
  return std::max(transfer_s(link, sent_bytes, messages), moved_s + messages * link.latency_s);
}

double collective_latency_s(const Hardware& hardware, RankSpan span, VectorMove move) {
  if (!has_device_library(hardware, span)) return group_link(hardware, span).latency_s;
  return price_collective(hardware, span, move, 1.0).seconds;
}

double fastest_bytes_per_s(const Hardware& hardware, RankSpan span, VectorMove move) {
  const double ring = group_link(hardware, span).bytes_per_s;
  if (move != VectorMove::AllReduce || span.count < 2 || !has_device_library(hardware, span)) {
    return ring;
  }
  // A ring would take a second for these bytes.
  const auto times = switch_times(exchange_of(hardware, span, move, ring));
  return times && times->bytes_s > 0.0 ? ring * std::max(1.0, 1.0 / times->bytes_s) : ring;
}

}  // namespace trireme
