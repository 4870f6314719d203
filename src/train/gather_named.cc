#include "train/gather_named.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "comm/gather_text.h"
#include "device/host.h"

namespace trireme {

NamedRanks gather_named(Group& ranks, int own_suspicion) {
  const std::vector<std::string> all =
      gather_text(ranks, fmt::format("{:d}{}", own_suspicion, host_name()));
  NamedRanks named;
  for (const std::string& text : all) named.suspicion = std::max(named.suspicion, text[0] - '0');
  for (size_t rank = 0; rank < all.size() && named.suspicion > 0; ++rank) {
    if (all[rank][0] - '0' == named.suspicion) {
      named.ranks.push_back({int(rank), all[rank].substr(1)});
    }
  }
  return named;
}

}  // namespace trireme
