#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/dtype.h"
#include "base/result.h"
#include "schema/placement.h"

namespace trireme {

using CallSite = std::source_location;

enum class Collective : uint8_t {
  AllReduce,
  Reduce,
  Broadcast,
  Scatter,
  Gather,
  AllGather,
  ReduceScatter,
  AllToAll,
  Barrier,
  Send,
  Recv,
};
inline constexpr int kNumCollectives = 11;

// True if every rank gives a part and all ranks, or the root, get the whole.
constexpr bool gathers(Collective c) {
  return c == Collective::Gather || c == Collective::AllGather;
}
constexpr bool is_reduction(Collective c) {
  return c == Collective::AllReduce || c == Collective::Reduce || c == Collective::ReduceScatter;
}
// True if one rank sends to all others or receives from them.
constexpr bool is_rooted(Collective c) {
  return c == Collective::Reduce || c == Collective::Broadcast || c == Collective::Scatter ||
         c == Collective::Gather;
}

// Mean is the sum divided once at the end. Max and Min give NaN if any addend is NaN.
enum class ReduceOp : uint8_t { Sum, Mean, Max, Min };

enum class Algorithm : uint8_t {
  Auto,             // chosen by size and topology with the alpha-beta model
  Canonical,        // the fastest of the algorithms that add in one binary tree over the rank index
  Shared,           // ranks read and write each other's memory, so each byte moves only once
  ParameterServer,  // rank 0 (or the root) is the server and also a worker
  Naive,            // each rank sends to every other rank
  Ring,
  Tree,             // binomial tree, rooted at rank 0
  Doubling,         // recursive doubling; Bruck's algorithm for all_gather and all_to_all
  HalvingDoubling,  // recursive halving, then doubling
  Hierarchical,     // node-aware
  Native,           // the backend's own collective, for comparison
};

std::string_view name_of(Collective collective);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Algorithm algorithm);
Result<Collective> parse_collective(std::string_view name);
Result<ReduceOp> parse_reduce_op(std::string_view name);
Result<Algorithm> parse_algorithm(std::string_view name);

// A rank's description of its call. Peers compare everything except the call site, which may differ
// (the root of a broadcast is often in another branch) and is used only in reports.
struct Signature {
  uint64_t sequence = 0;  // number of the group's collective, from 1
  int64_t count = 0;      // elements of the full vector; -1: differs by rank
  int32_t group = 0;
  int32_t root = 0;  // or the peer of a send or recv
  Collective collective = Collective::Barrier;
  ReduceOp op = ReduceOp::Sum;
  DType dtype = DType::U8;
  Algorithm algorithm = Algorithm::Auto;
  uint32_t line = 0;
  const char* file = "";
  const char* group_name = "";

  uint64_t hash() const;
};

// A signature that can be sent to another process.
struct SignatureRecord {
  uint64_t hash = 0;  // 0: the call is unknown
  uint64_t sequence = 0;
  int64_t count = 0;
  int32_t group = 0;
  int32_t root = 0;
  Collective collective = Collective::Barrier;
  ReduceOp op = ReduceOp::Sum;
  DType dtype = DType::U8;
  Algorithm algorithm = Algorithm::Auto;
  uint32_t line = 0;
  char file[40] = {};  // the end of the path
  char group_name[16] = {};
};
static_assert(std::is_trivially_copyable_v<SignatureRecord>);

SignatureRecord record_of(const Signature& signature);
// Returns text such as "all_reduce(sum, fp32, 1024 elements, ring), call 7 of group dp, at
// train/step.cc:88".
std::string to_string(const SignatureRecord& record);

}  // namespace trireme
