#include "train/host_places.h"

#include <algorithm>
#include <map>

#include "comm/gather_text.h"

namespace trireme {

std::vector<int> HostPlaces::keepers() const {
  std::vector<int> keepers;
  for (const Host& host : hosts) keepers.push_back(host.ranks.front());
  return keepers;
}

HostPlaces gather_hosts(Group& ranks, const MemoryPlace& place) {
  const std::vector<std::string> texts = gather_text(ranks, place.host + "\n" + place.folder);
  HostPlaces places{.has_all = true};
  std::map<std::string, int> numbers;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::string& text = texts[size_t(rank)];
    const auto [found, is_new] = numbers.try_emplace(text, int(places.hosts.size()));
    if (is_new) places.hosts.push_back({text.substr(0, text.find('\n')), {}});
    places.hosts[size_t(found->second)].ranks.push_back(rank);
    if (text.ends_with('\n')) places.has_all = false;
    if (rank == ranks.rank()) places.own = found->second;
  }
  return places;
}

}  // namespace trireme
