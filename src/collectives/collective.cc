#include "collectives/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/nearest_name.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, kNumCollectives> kCollectiveNames = {
    "all_reduce",     "reduce",     "broadcast", "scatter", "gather", "all_gather",
    "reduce_scatter", "all_to_all", "barrier",   "send",    "recv"};
constexpr std::array<std::string_view, 4> kReduceOpNames = {"sum", "mean", "max", "min"};
constexpr std::array<std::string_view, 11> kAlgorithmNames = {
    "auto", "canonical", "shared",           "parameter_server", "naive", "ring",
    "tree", "doubling",  "halving_doubling", "hierarchical",     "native"};

template <typename Enum, size_t N>
Result<Enum> parse(std::string_view name, const std::array<std::string_view, N>& names,
                   std::string_view what) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  const std::vector<std::string> known(names.begin(), names.end());
  const std::string nearest = nearest_name(name, known);
  return Error{ErrorKind::Usage,
               fmt::format("unknown {} '{}'{}; known: {}", what, name,
                           nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest),
                           fmt::join(names, " "))};
}

}  // namespace

std::string_view name_of(Collective collective) { return kCollectiveNames[size_t(collective)]; }
std::string_view name_of(ReduceOp op) { return kReduceOpNames[size_t(op)]; }
std::string_view name_of(Algorithm algorithm) { return kAlgorithmNames[size_t(algorithm)]; }

Result<Collective> parse_collective(std::string_view name) {
  return parse<Collective>(name, kCollectiveNames, "collective");
}
Result<ReduceOp> parse_reduce_op(std::string_view name) {
  return parse<ReduceOp>(name, kReduceOpNames, "reduction");
}
Result<Algorithm> parse_algorithm(std::string_view name) {
  return parse<Algorithm>(name, kAlgorithmNames, "algorithm");
}

uint64_t Signature::hash() const {
  const auto mix = [](uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 29);
  };
  const uint64_t kinds = uint64_t(collective) | uint64_t(op) << 8 | uint64_t(dtype) << 16 |
                         uint64_t(algorithm) << 24 | uint64_t(uint32_t(root)) << 32;
  return mix(mix(mix(sequence + 0x51ED270Bull, kinds), uint64_t(count)), uint64_t(group)) | 1;
}

SignatureRecord record_of(const Signature& s) {
  SignatureRecord record{.hash = s.hash(),
                         .sequence = s.sequence,
                         .count = s.count,
                         .group = s.group,
                         .root = s.root,
                         .collective = s.collective,
                         .op = s.op,
                         .dtype = s.dtype,
                         .algorithm = s.algorithm,
                         .line = s.line};
  const size_t length = std::strlen(s.file);
  const size_t kept = std::min(length, sizeof record.file - 1);
  std::memcpy(record.file, s.file + (length - kept), kept);
  std::strncpy(record.group_name, s.group_name, sizeof record.group_name - 1);
  return record;
}

std::string to_string(const SignatureRecord& r) {
  if (r.hash == 0) return "another call, which it did not report in time";
  std::string what(name_of(r.collective));
  if (r.collective == Collective::Barrier) {
    what += "()";
  } else {
    what += '(';
    if (is_reduction(r.collective)) what += fmt::format("{}, ", name_of(r.op));
    if (is_rooted(r.collective)) what += fmt::format("root {}, ", r.root);
    if (r.collective == Collective::Send) what += fmt::format("to {}, ", r.root);
    if (r.collective == Collective::Recv) what += fmt::format("from {}, ", r.root);
    what += name_of(r.dtype);
    if (r.count >= 0) what += fmt::format(", {} elements", r.count);
    what += fmt::format(", {})", name_of(r.algorithm));
  }
  return fmt::format("{}, call {} of group {}, at {}:{}", what, r.sequence, r.group_name, r.file,
                     r.line);
}

}  // namespace trireme
