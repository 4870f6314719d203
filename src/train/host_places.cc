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

namespace {

// `text` has the name of a host, its domain and its folder.
HostPlaces::Host host_in(const std::string& text) {
  const size_t name_end = text.find('\n');
  const size_t domain_end = text.find('\n', name_end + 1);
  return {text.substr(0, name_end), text.substr(name_end + 1, domain_end - name_end - 1), {}};
}

}  // namespace

HostPlaces gather_hosts(Group& ranks, const MemoryPlace& place) {
  const std::vector<std::string> texts =
      gather_text(ranks, place.host + "\n" + place.domain + "\n" + place.folder);
  HostPlaces places{.has_all = true};
  std::map<std::string, int> numbers;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::string& text = texts[size_t(rank)];
    const auto [found, is_new] = numbers.try_emplace(text, int(places.hosts.size()));
    if (is_new) places.hosts.push_back(host_in(text));
    places.hosts[size_t(found->second)].ranks.push_back(rank);
    if (text.ends_with('\n')) places.has_all = false;
    if (rank == ranks.rank()) places.own = found->second;
  }
  return places;
}

}  // namespace trireme
