#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compile/link_cost.h"

namespace trireme {

// How the ranks of a group make a collective, as far as its price depends on it.
enum class CollectiveMethod : uint8_t {
  Messages,  // the algorithms of our runtime, or rings along the axes of a torus
  Ring,
  Tree,    // chains inside the parts of the innermost tier, a double binary tree between them
  Switch,  // the switch adds what the ranks send (NVLink SHARP)
};
inline constexpr int kNumCollectiveMethods = 4;
std::string_view name_of(CollectiveMethod method);

// How NCCL's ranks pass on data. Simple fills a buffer and then says so. The other two send a flag
// beside every few bytes (LL) or every 120 bytes (LL128): their steps are short, and less of the
// bandwidth is left.
enum class WireProtocol : uint8_t { Simple, LL128, LL };
std::string_view name_of(WireProtocol protocol);

struct CollectivePrice {
  CollectiveMethod method = CollectiveMethod::Messages;
  WireProtocol protocol = WireProtocol::Simple;
  double seconds = 0.0;

  bool has_protocol() const {
    return method == CollectiveMethod::Ring || method == CollectiveMethod::Tree;
  }
};
// Returns "ring, LL128".
std::string text_of(const CollectivePrice& price);

// True if NCCL or a library like it makes the collectives of these ranks: on devices with
// multiprocessors whose links go to switches.
bool has_device_library(const Hardware& hardware, RankSpan span);

// The price of one collective in which every rank sends so many bytes if it runs as a ring. With a
// device library it is that of the method and protocol of least predicted time, as NCCL chooses.
// Otherwise it is transfer_s over group_link. Nothing sent, or an unknown bandwidth: 0.
CollectivePrice price_collective(const Hardware& hardware, RankSpan span, VectorMove move,
                                 double sent_bytes);

// Bytes of the whole vector of a collective in which every rank sends so many if it runs as a ring.
double vector_bytes(RankSpan span, VectorMove move, double sent_bytes);

// The collective of most bytes among those that it is shown.
struct LargestCollective {
  VectorMove move = VectorMove::AllReduce;
  double sent_bytes = 0.0;
  CollectivePrice price;

  void take(VectorMove other, double bytes, const CollectivePrice& other_price) {
    if (bytes > sent_bytes) *this = {other, bytes, other_price};
  }
};

// Seconds of `messages` such collectives of one size, in which this rank sends so many bytes in
// all.
double collectives_s(const Hardware& hardware, RankSpan span, VectorMove move, double sent_bytes,
                     double messages = 1.0);

// The same for vectors that no cache holds, which ranks of one processor move through its memory.
double vectors_s(const Hardware& hardware, RankSpan span, VectorMove move, double sent_bytes,
                 double messages = 1.0);

// Seconds of a collective of hardly any bytes.
double collective_latency_s(const Hardware& hardware, RankSpan span, VectorMove move);

// No collective is faster than the bytes that a rank sends in a ring over this bandwidth; 0:
// unknown.
double fastest_bytes_per_s(const Hardware& hardware, RankSpan span, VectorMove move);

}  // namespace trireme
