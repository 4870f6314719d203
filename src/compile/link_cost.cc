#include "compile/link_cost.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// Rounds in which a message reaches `parts` parts that are joined by one tier.
double rounds(const TierPart& part) {
  const double parts = double(part.parts);
  return part.tier->has_switch() ? std::ceil(std::log2(parts)) : std::floor(parts / 2.0);
}

double latency_s(const Hardware& hardware, const std::vector<TierPart>& parts) {
  double seconds = hardware.collective_s;
  for (const TierPart& part : parts) {
    if (part.parts > 1) seconds += rounds(part) * part.tier->link.latency_s;
  }
  return seconds;
}

// The lower of two bandwidths, of which 0 is unknown.
double slower(double a, double b) {
  if (a <= 0.0 || b <= 0.0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

RankSpan span_of(const Mesh& mesh, MeshAxis axis, int place) {
  if (axis == MeshAxis::Tp) return {mesh.tp_at(place), stride_of(mesh, axis, place)};
  if (axis == MeshAxis::Dp) return {mesh.dp_at(place), stride_of(mesh, axis, place)};
  if (axis != MeshAxis::Ep) return {mesh.degree(axis), stride_of(mesh, axis, place)};
  const RankSpan cp{mesh.ep_cp(), stride_of(mesh, MeshAxis::Cp, place)};
  const RankSpan dp{mesh.ep_dp(), stride_of(mesh, MeshAxis::Dp, place)};
  if (cp.count == 1 || dp.count == 1) return dp.count > 1 ? dp : cp;
  return dp.stride > cp.stride ? dp : cp;
}

NodeSizes nodes_of_place(const Hardware& hardware, const Mesh& mesh, int place) {
  const NodeMap nodes = hardware.nodes();
  if (nodes.are_equal()) return {};
  NodeSizes all;
  const PlaceDegrees degrees = mesh.at(place);
  for (int dp = 0; dp < degrees.dp; ++dp) {
    for (int cp = 0; cp < mesh.cp; ++cp) {
      for (int tp = 0; tp < degrees.tp; ++tp) {
        const int64_t size =
            nodes.size_at(position_of(mesh, {.tp = tp, .cp = cp, .pp = place, .dp = dp}));
        all.least = all.least == 0 ? size : std::min(all.least, size);
        all.most = std::max(all.most, size);
      }
    }
  }
  return all;
}

RankSpan span_on(const Hardware& hardware, const Mesh& mesh, MeshAxis axis, int place) {
  RankSpan span = span_of(mesh, axis, place);
  span.nodes = nodes_of_place(hardware, mesh, place);
  return span;
}

LinkSpec group_link(const Hardware& hardware, RankSpan span) {
  const std::vector<TierPart> parts = parts_of(hardware.tiers, span);
  LinkSpec link{latency_s(hardware, parts), 0.0};
  double torus_bytes_per_s = 0.0;  // every axis of a torus has links of its own
  for (const TierPart& part : parts) {
    if (part.parts == 1) continue;
    if (part.tier->is_torus) {
      torus_bytes_per_s += part.bytes_per_s;
    } else {
      link.bytes_per_s = slower(link.bytes_per_s, double(part.below) * part.bytes_per_s);
    }
  }
  link.bytes_per_s = slower(link.bytes_per_s, torus_bytes_per_s);
  return link;
}

LinkSpec exchange_link(const Hardware& hardware, RankSpan span) {
  const std::vector<TierPart> parts = parts_of(hardware.tiers, span);
  LinkSpec link{latency_s(hardware, parts), 0.0};
  const double sent = double(span.count - 1);
  for (const TierPart& part : parts) {
    if (part.parts == 1) continue;
    // Of what a rank sends, the share for ranks beyond its own part of the group. On a ring of D
    // ranks a message goes D / 4 hops on average, over two directions.
    const double beyond = double(span.count - part.below) / sent;
    const double hops = part.tier->has_switch() ? 1.0 : std::max(1.0, double(part.parts) / 4.0);
    link.bytes_per_s = slower(link.bytes_per_s, part.bytes_per_s / (beyond * hops));
  }
  return link;
}

LinkSpec pair_link(const Hardware& hardware, int64_t from, int64_t to) {
  const NodeMap nodes = hardware.nodes();
  const int64_t larger = std::max(nodes.size_at(from), nodes.size_at(to));
  for (size_t i = 0; i < hardware.tiers.size(); ++i) {
    const LinkTier& tier = hardware.tiers[i];
    const bool is_last = i + 1 == hardware.tiers.size();
    const bool is_joined =
        is_last || (i == 0 ? nodes.share_node(from, to) : from / tier.ranks == to / tier.ranks);
    if (is_joined) {
      return {tier.link.latency_s, bytes_per_s_of_rank(hardware.tiers, i, larger)};
    }
  }
  return {};
}

double shared_memory_s(const Hardware& hardware, RankSpan span, VectorMove move,
                       double sent_bytes) {
  const int64_t node = span.nodes.least > 0 ? span.nodes.least : hardware.nodes().size_at(0);
  const bool is_inside_node = span.count * span.stride <= node;
  if (!hardware.is_processor() || span.count < 2 || !is_inside_node) return 0.0;
  const double n = double(span.count);
  double moved = 0.0;  // bytes, for each byte that is sent
  switch (move) {
    case VectorMove::AllReduce:
      moved = n / (n - 1.0);
      break;
    case VectorMove::ReduceScatter:
      moved = (n + 2.0) / (n - 1.0);
      break;
    case VectorMove::AllGather:
      moved = 3.0 * n / (n - 1.0);
      break;
  }
  return moved * sent_bytes / (hardware.memory_bytes_per_s * hardware.memory_share);
}

double transfer_s(const LinkSpec& link, double sent_bytes, double messages) {
  if (link.bytes_per_s <= 0.0 || sent_bytes <= 0.0) return 0.0;
  return sent_bytes / link.bytes_per_s + messages * link.latency_s;
}

}  // namespace trireme
