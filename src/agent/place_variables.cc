#include "agent/place_variables.h"

#include <fmt/format.h>

#include <charconv>

namespace trireme {
namespace {

constexpr const char* kRendezvous = "TRIREME_RENDEZVOUS";
constexpr const char* kEpoch = "TRIREME_EPOCH";
constexpr const char* kRank = "TRIREME_RANK";
constexpr const char* kRanks = "TRIREME_RANKS";
constexpr const char* kHost = "TRIREME_HOST";

Result<int64_t> number_in(const std::string& name, const std::string& text, int64_t least,
                          int64_t most) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= least && value <= most) return value;
  return usage(
      fmt::format("{} = \"{}\": expected a number from {} to {}; `trireme launch` sets "
                  "this variable",
                  name, text, least, most));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> variables_of(const TcpPlace& place,
                                                              int ranks_on_host) {
  return {{kRendezvous, place.rendezvous},
          {kSecretVariable, place.secret},
          {kEpoch, std::to_string(place.epoch)},
          {kRank, std::to_string(place.rank)},
          {kRanks, std::to_string(place.size)},
          {kHost, place.host},
          {kRanksOnHostVariable, std::to_string(ranks_on_host)}};
}

Result<std::optional<TcpPlace>> place_in(
    const std::function<std::string(const std::string&)>& variable) {
  TcpPlace place{.rendezvous = variable(kRendezvous),
                 .secret = variable(kSecretVariable),
                 .host = variable(kHost)};
  if (place.rendezvous.empty()) return std::optional<TcpPlace>();
  TRIREME_TRY(ranks, number_in(kRanks, variable(kRanks), 1, kLargestTcpWorld));
  TRIREME_TRY(rank, number_in(kRank, variable(kRank), 0, ranks - 1));
  TRIREME_TRY(epoch, number_in(kEpoch, variable(kEpoch), 1, INT64_MAX));
  place.size = int(ranks);
  place.rank = int(rank);
  place.epoch = uint64_t(epoch);
  return std::optional<TcpPlace>(std::move(place));
}

}  // namespace trireme
